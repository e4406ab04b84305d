//! Receipts: what a request cost, in figures that can be compared with the memory's bandwidth.

mod timing;

use serde::{Deserialize, Serialize};

pub use timing::{Percentiles, Timing};

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// An end-of-turn token or a stop string.
    Stop,
    /// `max_tokens`.
    Length,
    /// The end of the context.
    Context,
    /// The model calls tools, and waits for what they say.
    #[serde(rename = "tool_calls")]
    ToolCalls,
    /// The time that its caller gave it is over.
    Deadline,
    Cancelled,
    Error,
}

impl FinishReason {
    /// Whether the answer was ended from outside, before the model had.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Cancelled | Self::Deadline)
    }

    /// Whether the answer was ended before the model had come to its end.
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

/// The receipt of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole prompt, history included.
    pub prompt_tokens: u32,
    /// So many of them had their KV still there.
    pub cached_tokens: u32,
    /// Tokens whose KV came back from the disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u32,
    /// Tokens that had been in the cache and were read again: of the session, as others had needed its pages or its text was all
    /// that was left of it, or of this request, which had to make way for others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reread_tokens: u32,
    /// Steps that ran again for it, as what its guide allows was not known in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated_steps: u32,
    /// Tokens generated, the end-of-turn token included.
    pub completion_tokens: u32,
    /// Microseconds from acceptance to the start of the prefill.
    pub queue_us: u64,
    /// Microseconds from the start of the prefill to the first token.
    pub first_token_us: u64,
    /// Tokens per second after the first token.
    pub tokens_per_second: f64,
    /// Bytes that decoding had to move, per second, in 10^9.
    pub gigabytes_per_second: f64,
    /// What the choices started from: given again, the same request has the same answer.
    #[serde(default)]
    pub seed: u64,
    /// What the answer was sampled with; `None` if no token was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// The oldest turns of the session that were dropped, so that this one fits the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_turns: u32,
}

/// The parameters of a choice, wherever each comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: f64,
    pub top_k: u32,
    pub top_p: f64,
    pub min_p: f64,
    pub repetition_penalty: f64,
}

/// Returns the number that people write for one that the sampler has: 0.7, where the nearest f32 is 0.699999988.
#[must_use]
pub fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What one finished request cost.
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
        )
    }
}
