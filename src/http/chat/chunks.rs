//! An answer as server-sent events: a chunk for each event of the engine, written into one buffer.

use super::super::answer::heading::Heading;
use super::super::answer::sse;
use super::super::answer::stream::Writer;
use super::super::error::Error;
use super::super::terms;
use super::answer::{Chunk, ChunkChoice, ChunkUsage, Delta, Logprobs, finish_reason};
use crate::engine::{Event, Likelihood, Outcome};

/// The chunks that are not sent yet.
#[derive(Debug)]
pub(super) struct Chunks {
    heading: Heading,
    include_usage: bool,
    /// Probabilities of tokens whose text is not sent yet.
    likelihoods: Vec<Likelihood>,
    begun: bool,
    /// Whether a chunk had text or a part of a call.
    spoken: bool,
    unsent: Vec<u8>,
}

impl Chunks {
    pub(super) fn new(heading: Heading, include_usage: bool) -> Self {
        Self {
            heading,
            include_usage,
            likelihoods: Vec::new(),
            begun: false,
            spoken: false,
            unsent: Vec::new(),
        }
    }

    /// Writes a delta with the probabilities of its tokens.
    fn say(&mut self, delta: Delta<'_>) {
        let likelihoods = std::mem::take(&mut self.likelihoods);
        self.delta(delta, &likelihoods);
    }

    fn delta(&mut self, delta: Delta<'_>, likelihoods: &[Likelihood]) {
        self.choice(delta, likelihoods, None);
    }

    /// Writes a chunk with a choice. The last one, which has an outcome, has the reason of the end.
    fn choice(&mut self, delta: Delta<'_>, likelihoods: &[Likelihood], end: Option<&Outcome>) {
        let choice = ChunkChoice {
            index: 0,
            delta,
            logprobs: Logprobs::of(likelihoods),
            finish_reason: end.map(|outcome| finish_reason(outcome.reason)),
        };
        let chunk = Chunk {
            id: &self.heading.id,
            object: "chat.completion.chunk",
            created: self.heading.created,
            model: &self.heading.model,
            choices: &[choice],
            usage: if self.include_usage {
                ChunkUsage::Null
            } else {
                ChunkUsage::Absent
            },
            ganglion: end.map(Into::into),
        };
        sse::write(&mut self.unsent, &chunk);
    }

    fn end(&mut self, outcome: &Outcome) {
        if let Some(error) = Error::of_outcome(outcome, &terms::CHAT) {
            sse::write(&mut self.unsent, &error.json());
        } else {
            // An answer without text is an empty text.
            let content = (!self.spoken).then_some("");
            let last = Delta {
                content,
                ..Delta::default()
            };
            let likelihoods = std::mem::take(&mut self.likelihoods);
            self.choice(last, &likelihoods, Some(outcome));
            if self.include_usage {
                let usage = Chunk {
                    id: &self.heading.id,
                    object: "chat.completion.chunk",
                    created: self.heading.created,
                    model: &self.heading.model,
                    choices: &[],
                    usage: ChunkUsage::Counts(outcome.into()),
                    ganglion: None,
                };
                sse::write(&mut self.unsent, &usage);
            }
        }
        self.unsent.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl Writer for Chunks {
    fn push(&mut self, event: Event) {
        if !self.begun {
            self.begun = true;
            let begins = Delta {
                role: Some("assistant"),
                content: matches!(event, Event::Text(_)).then_some(""),
                ..Delta::default()
            };
            self.delta(begins, &[]);
        }
        match event {
            Event::Likelihood(likelihood) => self.likelihoods.push(likelihood),
            Event::Text(text) => {
                self.spoken = true;
                self.say(Delta {
                    content: Some(&text),
                    ..Delta::default()
                });
            }
            Event::Reasoning(text) => self.say(Delta {
                reasoning_content: Some(&text),
                ..Delta::default()
            }),
            Event::Call(piece) => {
                self.spoken = true;
                self.say(Delta {
                    tool_calls: Some([(&piece).into()]),
                    ..Delta::default()
                });
            }
            Event::Done(outcome) => self.end(&outcome),
        }
    }

    fn ping(&mut self) {
        sse::write_comment(&mut self.unsent);
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    fn unsent(&self) -> usize {
        self.unsent.len()
    }
}
