//! What an answer says, as its tokens come: thoughts, text and calls of tools, each apart.

use crate::model::language::Decoder;
use crate::model::{Call, Message, Role};
use crate::tools::{AnswerPart, Listener, Piece};

/// What a token made of an answer.
#[derive(Debug)]
pub(super) enum Said {
    /// Neither is ever empty.
    Reasoning(String),
    Text(String),
    Call(Piece),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its first token may begin thoughts.
    Begins,
    Thinks,
    Answers,
}

/// Listens to one answer.
#[derive(Debug)]
pub(super) struct Speech {
    decoder: Decoder,
    /// One to which nothing has been said.
    fresh: Decoder,
    thinking: Option<[u32; 2]>,
    stage: Stage,
    listener: Option<Listener>,
    reasoning: String,
    /// Space at the end of what was thought so far, which is not told if nothing follows.
    space: String,
    /// Whether space is left out until something else comes: around thoughts it only sets them apart.
    trims: bool,
    /// How many tokens set the answer apart from thoughts, if its guide says that; whatever comes after them is the answer's.
    apart: Option<usize>,
    /// So many of them are still to come.
    left_out: usize,
}

impl Speech {
    /// What an answer says whose thoughts, between these tokens, the prompt may have `begun`; with so many tokens `apart`
    /// from them, or any space.
    pub(super) fn new(
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
            fresh: decoder.clone(),
            decoder,
            thinking,
            stage,
            listener,
            reasoning: String::new(),
            space: String::new(),
            trims: stage == Stage::Thinks,
            apart,
            left_out: 0,
        }
    }

    /// The next token of the answer.
    pub(super) fn take(&mut self, token: u32) -> Vec<Said> {
        let [begin, end] = self.thinking.map_or([None; 2], |both| both.map(Some));
        match self.stage {
            Stage::Begins if Some(token) == begin => {
                self.turn_to(Stage::Thinks);
                Vec::new()
            }
            Stage::Thinks if Some(token) == end => {
                let rest = self.decoder.clone().finish();
                let said = self.thought(&rest);
                self.turn_to(Stage::Answers);
                if let Some(apart) = self.apart {
                    (self.trims, self.left_out) = (false, apart);
                }
                said
            }
            Stage::Thinks => {
                let text = self.decoder.push(token);
                self.thought(&text)
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
                self.told(heard)
            }
        }
    }

    /// What was held back, once nothing more comes.
    pub(super) fn finish(&mut self) -> Vec<Said> {
        let rest = std::mem::replace(&mut self.decoder, self.fresh.clone()).finish();
        if self.stage == Stage::Thinks {
            return self.thought(&rest);
        }
        let heard = match &mut self.listener {
            Some(listener) => listener.finish(&rest),
            None => vec![AnswerPart::Text(rest)],
        };
        self.told(heard)
    }

    /// The calls that are whole.
    pub(super) fn calls(&self) -> &[Call] {
        self.listener.as_ref().map_or(&[], Listener::calls)
    }

    /// All that was said, of which `content` was shown; `spelled` is how.
    pub(super) fn message(self, content: String, spelled: impl FnOnce() -> String) -> Message {
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

    fn thought(&mut self, text: &str) -> Vec<Said> {
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

    fn told(&mut self, heard: Vec<AnswerPart>) -> Vec<Said> {
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
