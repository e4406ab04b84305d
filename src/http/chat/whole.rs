//! An answer in one JSON object.

use super::super::answer::heading::Heading;
use super::super::answer::whole::Whole;
use super::super::error::Error;
use super::super::terms;
use super::answer::{Call, Choice, Completion, Function, Logprobs, Message, finish_reason};
use crate::engine::{Event, Likelihood, Outcome};

/// The parts of an answer that have arrived. `max_tokens` of the request bounds them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    text: String,
    reasoning: String,
    likelihoods: Vec<Likelihood>,
}

impl Whole for Collected {
    fn collect(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Text(text) => self.text += &text,
            Event::Reasoning(text) => self.reasoning += &text,
            Event::Likelihood(likelihood) => self.likelihoods.push(likelihood),
            // The outcome has the complete calls. A program must not act on a part of one.
            Event::Call(_) => {}
            Event::Done(outcome) => return Some(outcome),
        }
        None
    }

    fn json(&self, heading: &Heading, outcome: &Outcome) -> Result<Vec<u8>, Error> {
        if let Some(error) = Error::of_outcome(outcome, &terms::CHAT) {
            return Err(error);
        }
        let calls = outcome.calls.iter().map(|call| Call {
            id: &call.id,
            kind: "function",
            function: Function {
                name: Some(&call.name),
                arguments: &call.arguments,
            },
        });
        let calls: Vec<_> = calls.collect();
        let says = !self.text.is_empty() || calls.is_empty();
        let message = Message {
            role: "assistant",
            content: says.then_some(&self.text),
            refusal: (),
            reasoning_content: (!self.reasoning.is_empty()).then_some(&self.reasoning),
            tool_calls: calls,
        };
        let completion = Completion {
            id: &heading.id,
            object: "chat.completion",
            created: heading.created,
            model: &heading.model,
            choices: [Choice {
                index: 0,
                message,
                logprobs: Logprobs::of(&self.likelihoods),
                finish_reason: finish_reason(outcome.reason),
            }],
            usage: outcome.into(),
            ganglion: outcome.into(),
        };
        // Serializing to memory fails only for maps without text keys.
        Ok(serde_json::to_vec(&completion).unwrap_or_default())
    }
}
