//! The costs of a request: token counts, times, and the share of the memory's bandwidth (`Usage`); and the times of
//! steps (`timing`). Also the counts of all requests (`totals`).
//! Not here: text of prompts and answers, and reporting itself.

mod histogram;
mod proposals;
mod timing;
mod totals;

use serde::{Deserialize, Serialize};

pub use histogram::{Distribution, Histogram};
pub use proposals::{GuessCounts, Proposals, Proposer};
pub use timing::{Percentiles, Timing};
pub use totals::{Count, Throughput, Totals};

/// The reason for the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// An end-of-turn token or a stop string.
    Stop,
    /// `max_tokens`.
    Length,
    /// The end of the context.
    Context,
    /// The model calls tools, and waits for their results.
    #[serde(rename = "tool_calls")]
    ToolCalls,
    /// The caller's time limit has passed.
    Deadline,
    Cancelled,
    Error,
}

impl FinishReason {
    pub const ALL: [Self; 7] = [
        Self::Stop,
        Self::Length,
        Self::Context,
        Self::ToolCalls,
        Self::Deadline,
        Self::Cancelled,
        Self::Error,
    ];

    /// Whether the answer was ended from outside, before the model ended it.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Cancelled | Self::Deadline)
    }

    /// Whether the answer was ended before the model ended it.
    #[must_use]
    pub const fn is_cut(self) -> bool {
        self.is_partial() || matches!(self, Self::Length | Self::Context)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Context => "context",
            Self::ToolCalls => "tool_calls",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// The usage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole prompt, history included.
    pub prompt_tokens: u32,
    /// Tokens of the prompt whose KV was still in the cache.
    pub cached_tokens: u32,
    /// Tokens whose KV was restored from the disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u32,
    /// Tokens that had been in the cache and were prefilled again. The session's pages were evicted, only its text was
    /// left, or the request itself was preempted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reread_tokens: u32,
    /// Steps that were repeated because the guide's mask was late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated_steps: u32,
    /// What guessed the most tokens of the answer; `None` if nothing guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposer: Option<Proposer>,
    /// Tokens that were guessed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposed_tokens: u32,
    /// Those of them that were accepted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accepted_tokens: u32,
    /// The same of each proposer.
    #[serde(default, skip_serializing_if = "Proposals::is_empty")]
    pub proposals: Proposals,
    /// Tokens generated, the end-of-turn token included.
    pub completion_tokens: u32,
    /// Microseconds from acceptance to the start of prefill.
    pub queue_us: u64,
    /// Microseconds from the start of prefill to the first token.
    pub first_token_us: u64,
    /// Tokens per second after the first token.
    pub tokens_per_second: f64,
    /// Bytes that decoding had to move, per second, in 10^9.
    pub gigabytes_per_second: f64,
    /// The request's share of the energy of the module's input, from the start of prefill on; `None` without a sensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
    /// The seed of the choices. The same request with this seed has the same answer.
    #[serde(default)]
    pub seed: u64,
    /// The sampling parameters; `None` if no token was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// The number of the session's oldest turns that were dropped so that this one fits the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_turns: u32,
    /// The images of the conversation whose bytes were lost, so that a text stood for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_images: u32,
}

/// The parameters of a choice, from whichever source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: f64,
    pub top_k: u32,
    pub top_p: f64,
    pub min_p: f64,
    pub repetition_penalty: f64,
}

/// Returns the decimal number that a person would write for an f32: 0.7 for 0.699999988.
#[must_use]
pub fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The cost of a finished request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Receipt {
    pub reason: FinishReason,
    pub usage: Usage,
}

impl std::fmt::Display for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Usage {
            prompt_tokens,
            cached_tokens,
            reread_tokens,
            completion_tokens,
            first_token_us,
            tokens_per_second,
            gigabytes_per_second,
            joules,
            ..
        } = self.usage;
        #[allow(clippy::cast_precision_loss)] // microseconds of a request fit an f64
        let first_ms = first_token_us as f64 / 1e3;
        let reason = self.reason.name();
        write!(
            f,
            "{completion_tokens} tokens ({reason}), prompt {prompt_tokens} ({cached_tokens} cached"
        )?;
        if reread_tokens > 0 {
            write!(f, ", {reread_tokens} read again")?;
        }
        write!(
            f,
            "), first token {first_ms:.0} ms, {tokens_per_second:.1} tokens/s, {gigabytes_per_second:.2} GB/s"
        )?;
        match joules {
            Some(joules) => write!(f, ", {joules:.1} J"),
            None => Ok(()),
        }
    }
}
