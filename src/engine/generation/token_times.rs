//! When the tokens of an answer were chosen, and the speed that follows from it.

use std::time::{Duration, Instant};

use crate::telemetry::Usage;

/// The times of the tokens so far, and the bytes that their steps had to move.
#[derive(Debug, Default)]
pub(super) struct TokenTimes {
    /// When the first token was chosen.
    first: Option<Instant>,
    /// When the last token was chosen.
    last: Option<Instant>,
    bytes: u64,
}

impl TokenTimes {
    /// Notes that a token was chosen. Returns the time since the token before it; the first has none.
    pub(super) fn token(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.first.get_or_insert(now);
        let before = self.last.replace(now);
        before.map(|before| now - before)
    }

    /// Whether no token was chosen yet.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds the bytes that a step moves.
    pub(super) fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Writes the speed of all steps after the first token into `usage`.
    #[allow(clippy::cast_precision_loss)] // for people
    pub(super) fn write_speed(&self, usage: &mut Usage) {
        let seconds = self
            .first
            .map_or(0.0, |first| first.elapsed().as_secs_f64());
        let steps = usage.completion_tokens.saturating_sub(1);
        if steps > 0 && seconds > 0.0 {
            usage.tokens_per_second = f64::from(steps) / seconds;
            usage.gigabytes_per_second = self.bytes as f64 / seconds / 1e9;
        }
    }
}
