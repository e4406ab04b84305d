//! An answer in one JSON object.

use serde_json::value::RawValue;

use super::super::answer::heading::Heading;
use super::super::answer::whole::Whole;
use super::super::error::Error;
use super::super::terms;
use super::answer::{Block, Message};
use crate::engine::{Event, Outcome};

/// The parts of an answer that have arrived. `max_tokens` of the request bounds them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    text: String,
    thoughts: String,
}

impl Whole for Collected {
    fn collect(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Text(text) => self.text += &text,
            Event::Reasoning(text) => self.thoughts += &text,
            // The outcome has the complete calls. A program must not act on a part of one.
            Event::Call(_) | Event::Likelihood(_) => {}
            Event::Done(outcome) => return Some(outcome),
        }
        None
    }

    fn json(&self, heading: &Heading, outcome: &Outcome) -> Result<Vec<u8>, Error> {
        if let Some(error) = Error::of_outcome(outcome, &terms::MESSAGES) {
            return Err(error);
        }
        let mut content = Vec::new();
        if !self.thoughts.is_empty() {
            content.push(Block::Thinking {
                thinking: &self.thoughts,
                signature: "",
            });
        }
        // An answer without text is an empty text.
        if !self.text.is_empty() || outcome.calls.is_empty() {
            content.push(Block::Text { text: &self.text });
        }
        for call in &outcome.calls {
            content.push(Block::ToolUse {
                id: &call.id,
                name: &call.name,
                input: input(&call.arguments)?,
            });
        }
        let message = Message::whole(heading, content, outcome);
        // Serializing to memory fails only for maps without text keys.
        Ok(serde_json::to_vec(&message).unwrap_or_default())
    }
}

/// Returns arguments as JSON. A complete call has an object, which its grammar has made.
fn input(arguments: &str) -> Result<&RawValue, Error> {
    serde_json::from_str(arguments).map_err(|error| {
        let why = format!("the input of a call is not JSON ({error}); report this");
        Error::unavailable("engine_failed", why)
    })
}
