//! An answer as server-sent events, written into one buffer.

use serde_json::value::RawValue;

use super::super::answer::heading::Heading;
use super::super::answer::sse;
use super::super::answer::stream::Writer;
use super::super::error::Error;
use super::super::error_form;
use super::super::terms;
use super::answer::{Block, Delta, Event, Message, UsageCounts};
use crate::engine::{self, Outcome};
use crate::tools::Piece;

/// The events that are not sent yet.
#[derive(Debug)]
pub(super) struct Events {
    heading: Heading,
    prompt_tokens: u32,
    has_begun: bool,
    /// The block that may grow.
    open: Option<Kind>,
    /// The number of blocks so far.
    blocks: usize,
    /// Whether there was a text or a call.
    spoken: bool,
    unsent: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thoughts,
    Text,
    Call,
}

impl Events {
    pub(super) fn new(heading: Heading, prompt_tokens: u32) -> Self {
        Self {
            heading,
            prompt_tokens,
            has_begun: false,
            open: None,
            blocks: 0,
            spoken: false,
            unsent: Vec::new(),
        }
    }

    fn begin(&mut self) {
        self.has_begun = true;
        let message = Message::begun(&self.heading, UsageCounts::begun(self.prompt_tokens));
        write(&mut self.unsent, &Event::MessageStart { message });
        write(&mut self.unsent, &Event::Ping);
    }

    /// Begins a block, after the end of the one before it.
    fn open(&mut self, kind: Kind, content_block: Block<'_>) {
        self.close();
        let index = self.blocks;
        self.blocks += 1;
        self.open = Some(kind);
        self.spoken |= kind != Kind::Thoughts;
        let event = Event::ContentBlockStart {
            index,
            content_block,
        };
        write(&mut self.unsent, &event);
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            let index = self.blocks.saturating_sub(1);
            write(&mut self.unsent, &Event::ContentBlockStop { index });
        }
    }

    fn delta(&mut self, delta: Delta<'_>) {
        let index = self.blocks.saturating_sub(1);
        write(&mut self.unsent, &Event::ContentBlockDelta { index, delta });
    }

    fn say(&mut self, text: &str) {
        if self.open != Some(Kind::Text) {
            self.open(Kind::Text, Block::Text { text: "" });
        }
        self.delta(Delta::Text { text });
    }

    fn think(&mut self, thinking: &str) {
        if self.open != Some(Kind::Thoughts) {
            let block = Block::Thinking {
                thinking: "",
                signature: "",
            };
            self.open(Kind::Thoughts, block);
        }
        self.delta(Delta::Thinking { thinking });
    }

    fn call(&mut self, piece: &Piece) {
        // The first piece of a call has its id.
        if let Some(id) = &piece.id {
            let block = Block::ToolUse {
                id,
                name: piece.name.as_deref().unwrap_or_default(),
                input: empty(),
            };
            self.open(Kind::Call, block);
        }
        if !piece.arguments.is_empty() {
            let partial_json = &piece.arguments;
            self.delta(Delta::Input { partial_json });
        }
    }

    fn end(&mut self, outcome: &Outcome) {
        if let Some(error) = Error::of_outcome(outcome, &terms::MESSAGES) {
            let error = error_form::anthropic(&error);
            return sse::write_named(&mut self.unsent, "error", &error);
        }
        if !self.spoken {
            // An answer without text is an empty text.
            self.open(Kind::Text, Block::Text { text: "" });
        }
        self.close();
        let last = Event::MessageDelta {
            delta: outcome.into(),
            usage: outcome.into(),
            ganglion: outcome.into(),
        };
        write(&mut self.unsent, &last);
        write(&mut self.unsent, &Event::MessageStop);
    }
}

/// Returns an object without members.
fn empty() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

fn write(out: &mut Vec<u8>, event: &Event<'_>) {
    sse::write_named(out, event.name(), event);
}

impl Writer for Events {
    fn push(&mut self, event: engine::Event) {
        if !self.has_begun {
            self.begin();
        }
        match event {
            engine::Event::Text(text) => self.say(&text),
            engine::Event::Reasoning(text) => self.think(&text),
            engine::Event::Call(piece) => self.call(&piece),
            // The API has no probabilities.
            engine::Event::Likelihood(_) => {}
            engine::Event::Done(outcome) => self.end(&outcome),
        }
    }

    fn ping(&mut self) {
        if self.has_begun {
            write(&mut self.unsent, &Event::Ping);
        } else {
            self.begin();
        }
    }

    fn unsent(&self) -> usize {
        self.unsent.len()
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }
}
