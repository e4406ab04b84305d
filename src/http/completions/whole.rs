//! An answer in one JSON object.

use super::super::answer::heading::Heading;
use super::super::answer::whole::Whole;
use super::super::chat::answer::{ChunkUsage, finish_reason};
use super::super::error::Error;
use super::super::terms;
use super::answer::{Choice, Completion, Logprobs, OBJECT};
use crate::engine::{Event, Likelihood, Outcome};

/// The parts of an answer that have arrived. `max_tokens` of the request bounds them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    text: String,
    likelihoods: Vec<Likelihood>,
}

impl Whole for Collected {
    fn collect(&mut self, event: Event) -> Option<Outcome> {
        match event {
            // Thoughts are text like any other here.
            Event::Text(text) | Event::Reasoning(text) => self.text += &text,
            Event::Likelihood(likelihood) => self.likelihoods.push(likelihood),
            // There are no tools.
            Event::Call(_) => {}
            Event::Done(outcome) => return Some(outcome),
        }
        None
    }

    fn json(&self, heading: &Heading, outcome: &Outcome) -> Result<Vec<u8>, Error> {
        if let Some(error) = Error::of_outcome(outcome, &terms::TEXT) {
            return Err(error);
        }
        let completion = Completion {
            id: &heading.id,
            object: OBJECT,
            created: heading.created,
            model: &heading.model,
            choices: &[Choice {
                index: 0,
                text: &self.text,
                logprobs: Logprobs::of(&self.likelihoods, 0),
                finish_reason: Some(finish_reason(outcome.reason)),
            }],
            usage: ChunkUsage::Counts(outcome.into()),
            ganglion: Some(outcome.into()),
        };
        // Serializing to memory fails only for maps without text keys.
        Ok(serde_json::to_vec(&completion).unwrap_or_default())
    }
}
