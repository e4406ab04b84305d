//! Limits and defaults of requests, as the configuration sets them for all front ends.

use std::sync::Arc;
use std::time::Duration;

use super::images::ImageLimits;
use crate::engine::{Overflow, Priority};
use crate::guess::{MOST_GUESSES, Mode};
use crate::guide::Limits;
use crate::sampler::Partial;
use crate::tools::Tools;

/// Limits and defaults of requests. The turns of a session have a copy with the session's own defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The default of `max_tokens`.
    pub max_tokens: usize,
    /// The largest `max_tokens` that a request may give.
    pub max_tokens_limit: usize,
    /// The defaults of the sampling options.
    pub sampling: Partial,
    /// Whether the model's recommendation fills sampling options that neither a request nor `sampling` sets.
    pub sampling_from_model: bool,
    /// The default of `logprobs`; a session sets it.
    pub logprobs: Option<u8>,
    /// The default of `seed`; `None` makes a new seed for each request.
    pub seed: Option<u64>,
    /// The default of `thinking`; `None` leaves the choice to the model's chat template.
    pub thinking: Option<bool>,
    /// The default of `thinking_tokens`.
    pub thinking_tokens: Option<usize>,
    /// The default of `priority`.
    pub priority: Priority,
    /// The default of `tools`; a session sets it.
    pub tools: Option<Arc<Tools>>,
    /// The most bytes of tools.
    pub tools_bytes: usize,
    /// What happens to a turn of a session that exceeds the context.
    pub overflow: Overflow,
    /// Whether answers are guessed whose requests do not set `guess`.
    pub guess: Mode,
    /// The default of `guess`; a session sets it.
    pub guess_asked: Option<bool>,
    /// The most tokens that a step guesses for one answer.
    pub guess_tokens: usize,
    /// The limits of images.
    pub images: ImageLimits,
    /// The longest time of a hold.
    pub hold_longest: Duration,
    /// The group whose members may use `Priority::Realtime`, as root may.
    pub realtime_group: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
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
            guess: Mode::default(),
            guess_asked: None,
            guess_tokens: MOST_GUESSES,
            images: ImageLimits::default(),
            hold_longest: Duration::from_secs(60),
            realtime_group: None,
        }
    }
}
