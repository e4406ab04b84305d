//! An answer as server-sent events: a chunk for each text of the engine, written into one buffer.

use super::super::answer::heading::Heading;
use super::super::answer::sse;
use super::super::answer::stream::Writer;
use super::super::chat::answer::{ChunkUsage, finish_reason};
use super::super::error::Error;
use super::super::terms;
use super::answer::{Choice, Completion, Logprobs, OBJECT};
use crate::engine::{Event, Likelihood, Outcome};

/// The chunks that are not sent yet.
#[derive(Debug)]
pub(super) struct Chunks {
    heading: Heading,
    include_usage: bool,
    /// Probabilities of tokens whose text is not sent yet.
    likelihoods: Vec<Likelihood>,
    /// The characters of the tokens whose probabilities were sent.
    offset: usize,
    unsent: Vec<u8>,
}

impl Chunks {
    pub(super) fn new(heading: Heading, include_usage: bool) -> Self {
        Self {
            heading,
            include_usage,
            likelihoods: Vec::new(),
            offset: 0,
            unsent: Vec::new(),
        }
    }

    /// Writes a text with the probabilities of its tokens. The last one, which has an outcome, has the reason of the end.
    fn say(&mut self, text: &str, end: Option<&Outcome>) {
        let likelihoods = std::mem::take(&mut self.likelihoods);
        let choice = Choice {
            index: 0,
            text,
            logprobs: Logprobs::of(&likelihoods, self.offset),
            finish_reason: end.map(|outcome| finish_reason(outcome.reason)),
        };
        let usage = if self.include_usage {
            ChunkUsage::Null
        } else {
            ChunkUsage::Absent
        };
        self.write(&[choice], usage, end);
        let characters = likelihoods.iter().map(|one| one.text.chars().count());
        self.offset += characters.sum::<usize>();
    }

    fn write(&mut self, choices: &[Choice<'_>], usage: ChunkUsage, end: Option<&Outcome>) {
        let chunk = Completion {
            id: &self.heading.id,
            object: OBJECT,
            created: self.heading.created,
            model: &self.heading.model,
            choices,
            usage,
            ganglion: end.map(Into::into),
        };
        sse::write(&mut self.unsent, &chunk);
    }

    fn end(&mut self, outcome: &Outcome) {
        if let Some(error) = Error::of_outcome(outcome, &terms::TEXT) {
            sse::write(&mut self.unsent, &error.json());
        } else {
            self.say("", Some(outcome));
            if self.include_usage {
                self.write(&[], ChunkUsage::Counts(outcome.into()), None);
            }
        }
        self.unsent.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl Writer for Chunks {
    fn push(&mut self, event: Event) {
        match event {
            Event::Likelihood(likelihood) => self.likelihoods.push(likelihood),
            // Thoughts are text like any other here.
            Event::Text(text) | Event::Reasoning(text) => self.say(&text, None),
            // There are no tools.
            Event::Call(_) => {}
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
