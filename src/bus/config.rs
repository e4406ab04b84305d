//! What the bus needs to know from the configuration.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Overflow, Priority};
use crate::guide::Limits;
use crate::sampler::Partial;
use crate::tools::Tools;

/// Limits and defaults of the bus interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct BusConfig {
    /// How long a reader may leave its full pipe unread.
    pub stream_stall: Duration,
    /// What `Complete` may take, waiting included. Callers give up after 25 s.
    pub complete_timeout: Duration,
    /// How long a finished request can be asked for its result.
    pub finished_linger: Duration,
    /// `max_tokens` of a request that gives none.
    pub max_tokens: usize,
    /// The largest `max_tokens` that a request may give.
    pub max_tokens_limit: usize,
    /// Sampling of a request that says nothing about it.
    pub sampling: Partial,
    /// Whether the model's recommendation fills what neither a request nor `sampling` says.
    pub sampling_from_model: bool,
    /// The number of log probabilities of a session's requests, unless a request sets it.
    pub logprobs: Option<u8>,
    /// A request that gives none has this one; `None` is a fresh one for each.
    pub seed: Option<u64>,
    /// Whether a model that can thinks first, where a request does not say; `None` leaves it to its template.
    pub thinking: Option<bool>,
    /// The most tokens that a model thinks, where a request does not say.
    pub thinking_tokens: Option<usize>,
    /// A request that gives none has this one.
    pub priority: Priority,
    /// What a request that offers none may call: a session's.
    pub tools: Option<Arc<Tools>>,
    /// The most bytes of tools.
    pub tools_bytes: usize,
    /// What becomes of a session that the context does not hold any more.
    pub overflow: Overflow,
    /// What a hold may take.
    pub hold_longest: Duration,
    /// Who, besides root, may ask for `Priority::Realtime`.
    pub realtime_group: Option<String>,
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            stream_stall: Duration::from_secs(30),
            complete_timeout: Duration::from_secs(20),
            finished_linger: Duration::from_secs(60),
            max_tokens: 512,
            max_tokens_limit: 4096,
            sampling: Partial::default(),
            sampling_from_model: true,
            logprobs: None,
            seed: None,
            thinking: None,
            thinking_tokens: None,
            priority: Priority::default(),
            tools: None,
            tools_bytes: Limits::USUAL.bytes,
            overflow: Overflow::default(),
            hold_longest: Duration::from_secs(60),
            realtime_group: None,
        }
    }
}
