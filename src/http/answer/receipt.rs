//! What an answer says beyond the form of its API: the object `ganglion`.

use serde::Serialize;

use crate::engine::{FinishReason, Outcome};
use crate::telemetry::{Proposals, Proposer};

/// The end and the costs of an answer.
#[derive(Debug, Serialize)]
pub(in crate::http) struct Receipt<'a> {
    /// The reason by the name that it has on the bus.
    finish_reason: FinishReason,
    queue_us: u64,
    first_token_us: u64,
    tokens_per_second: f64,
    /// Absent without a sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    joules: Option<f64>,
    seed: u64,
    /// What guessed the most tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposer: Option<Proposer>,
    #[serde(skip_serializing_if = "is_zero")]
    proposed_tokens: u32,
    #[serde(skip_serializing_if = "is_zero")]
    accepted_tokens: u32,
    /// The same of each proposer, if several guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposals: Option<Proposals>,
    /// Whether an answer in a format, or with tools, ends before it is complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
    /// JSON pointers to keywords of the request's schemas that were not enforced.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unchecked: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    lost_images: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl<'a> From<&'a Outcome> for Receipt<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let usage = &outcome.usage;
        Self {
            finish_reason: outcome.reason,
            queue_us: usage.queue_us,
            first_token_us: usage.first_token_us,
            tokens_per_second: usage.tokens_per_second,
            joules: usage.joules,
            seed: usage.seed,
            proposer: usage.proposer,
            proposed_tokens: usage.proposed_tokens,
            accepted_tokens: usage.accepted_tokens,
            proposals: Some(usage.proposals).filter(Proposals::are_mixed),
            incomplete: outcome.incomplete,
            unchecked: &outcome.unchecked,
            lost_images: usage.lost_images,
        }
    }
}
