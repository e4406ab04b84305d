//! Splits the tokens of an answer into thoughts, text and tool calls.

use super::heading::Heading;
use crate::model::Decoder;
use crate::model::{Call, Message, Role};
use crate::tools::{AnswerPart, Listener, Piece};

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Said {
    /// Never empty, like `Text`.
    Reasoning(String),
    Text(String),
    Call(Piece),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first token may begin thoughts.
    Begins,
    Thinks,
    Answers,
}

/// Splits one answer.
#[derive(Debug)]
pub(crate) struct Speech {
    decoder: Decoder,
    /// A decoder without tokens.
    fresh: Decoder,
    thinking: Option<[u32; 2]>,
    stage: Stage,
    listener: Option<Listener>,
    reasoning: String,
    /// The text at the beginning of the thoughts, which is not a thought.
    heading: Heading,
    /// White space at the end of the thoughts so far, which is only sent if something follows.
    space: String,
    /// Whether white space is dropped until something else comes: around thoughts it only separates.
    trims: bool,
    /// How many tokens separate the thoughts from the answer, if there is a guide.
    apart: Option<usize>,
    /// How many of these are still to come.
    left_out: usize,
}

impl Speech {
    /// Makes a splitter. The prompt may have begun the thoughts. `apart` tokens separate them from the answer, or else any white
    /// space.
    pub(crate) fn new(
        decoder: Decoder,
        (thinking, begun): (Option<[u32; 2]>, bool),
        apart: Option<usize>,
        listener: Option<Listener>,
    ) -> Self {
        let stage = match thinking {
            Some(_) if begun => Stage::Thinks,
            Some(_) => Stage::Begins,
            None => Stage::Answers,
        };
        Self {
            fresh: decoder.clone().whole(),
            // A guide names every space of an answer.
            decoder: match apart {
                Some(_) => decoder.whole(),
                None => decoder,
            },
            thinking,
            stage,
            listener,
            reasoning: String::new(),
            heading: Heading::default(),
            space: String::new(),
            trims: stage == Stage::Thinks,
            apart,
            left_out: 0,
        }
    }

    /// Removes a text from the beginning of thoughts, unless the prompt has begun them.
    pub(crate) fn without_heading(mut self, heading: String) -> Self {
        self.heading = Heading::new(heading);
        self
    }

    /// Adds the next token, and returns the parts that it completes.
    pub(crate) fn take(&mut self, token: u32) -> Vec<Said> {
        let [begin, end] = self.thinking.map_or([None; 2], |both| both.map(Some));
        match self.stage {
            Stage::Begins if Some(token) == begin => {
                self.turn_to(Stage::Thinks);
                self.heading.begin();
                Vec::new()
            }
            Stage::Thinks if Some(token) == end => {
                let rest = self.decoder.clone().finish();
                let rest = self.heading.end(rest);
                let said = self.think(&rest);
                self.turn_to(Stage::Answers);
                if let Some(apart) = self.apart {
                    (self.trims, self.left_out) = (false, apart);
                }
                said
            }
            Stage::Thinks => {
                let text = self.heading.rest_of(self.decoder.push(token));
                self.think(&text)
            }
            Stage::Answers if self.left_out > 0 => {
                self.left_out -= 1;
                Vec::new()
            }
            Stage::Begins | Stage::Answers => {
                self.stage = Stage::Answers;
                let heard = match &mut self.listener {
                    Some(listener) => listener.take(token, &mut self.decoder),
                    None => vec![AnswerPart::Text(self.decoder.push(token))],
                };
                self.split(heard)
            }
        }
    }

    /// Returns the parts that were held back, at the end of the answer.
    pub(crate) fn finish(&mut self) -> Vec<Said> {
        let rest = std::mem::replace(&mut self.decoder, self.fresh.clone()).finish();
        if self.stage == Stage::Thinks {
            let rest = self.heading.end(rest);
            return self.think(&rest);
        }
        let heard = match &mut self.listener {
            Some(listener) => listener.finish(&rest),
            None => vec![AnswerPart::Text(rest)],
        };
        self.split(heard)
    }

    /// Returns the complete calls.
    pub(crate) fn calls(&self) -> &[Call] {
        self.listener.as_ref().map_or(&[], Listener::calls)
    }

    /// Returns the answer as a message with the text `content`. `spelled` returns the exact text of its tokens.
    pub(crate) fn message(self, content: String, spelled: impl FnOnce() -> String) -> Message {
        let calls = self.calls().to_vec();
        let parts = !calls.is_empty() || !self.reasoning.is_empty();
        Message {
            reasoning: self.reasoning,
            calls,
            spelled: parts.then(spelled),
            ..Message::new(Role::Assistant, content)
        }
    }

    fn turn_to(&mut self, stage: Stage) {
        self.stage = stage;
        self.decoder = self.fresh.clone();
        self.trims = true;
        self.space.clear();
    }

    fn think(&mut self, text: &str) -> Vec<Said> {
        let text = if self.trims { text.trim_start() } else { text };
        self.trims &= text.is_empty();
        let all = std::mem::take(&mut self.space) + text;
        let (said, space) = all.split_at(all.trim_end().len());
        space.clone_into(&mut self.space);
        self.reasoning += said;
        if said.is_empty() {
            Vec::new()
        } else {
            vec![Said::Reasoning(said.to_owned())]
        }
    }

    fn split(&mut self, heard: Vec<AnswerPart>) -> Vec<Said> {
        let mut said = Vec::with_capacity(heard.len());
        for heard in heard {
            match heard {
                AnswerPart::Text(text) => {
                    let text = if self.trims { text.trim_start() } else { &text };
                    self.trims &= text.is_empty();
                    if !text.is_empty() {
                        said.push(Said::Text(text.to_owned()));
                    }
                }
                AnswerPart::Call(piece) => said.push(Said::Call(piece)),
            }
        }
        said
    }
}
