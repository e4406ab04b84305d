//! Counts and times of all requests since the start, of all users together. They never become smaller.
//!
//! A request is counted where its receipt is made, so that it counts once, whichever front end it came through. All
//! counters are relaxed atomics of a fixed size: recording never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::{Histogram, seconds};
use super::{FinishReason, Receipt, Usage};

/// A counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tokens that the device has computed, and the time that it took.
#[derive(Debug, Default)]
pub struct Throughput {
    pub tokens: Count,
    micros: Count,
}

impl Throughput {
    /// Adds tokens that were computed together.
    pub fn record(&self, tokens: usize, took: Duration) {
        self.tokens.add(tokens as u64);
        self.micros.add(micros(took));
    }

    /// Returns the time of all tokens, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        seconds(self.micros.get())
    }
}

/// Counts and times of requests. A prefill ahead of a request is no request.
#[derive(Debug, Default)]
pub struct Totals {
    ended: [Count; FinishReason::ALL.len()],
    /// Tokens of the prompts of ended requests.
    pub prompt_tokens: Count,
    /// Those that were in the cache.
    pub cached_tokens: Count,
    /// Those whose KV was restored from the disk or the host's memory.
    pub restored_tokens: Count,
    /// Tokens that had been in the cache and were prefilled again.
    pub reread_tokens: Count,
    /// Tokens of answers, counted when they are chosen.
    pub generated_tokens: Count,
    /// Times from the acceptance of requests to the start of their prefill.
    pub queue: Histogram,
    /// Times from the acceptance of requests to their first token.
    pub first_token: Histogram,
    /// Times from one token of an answer to the next.
    pub between_tokens: Histogram,
    /// Times from the acceptance of requests to their end.
    pub whole: Histogram,
    /// Prefill, including prefill ahead of requests.
    pub prefill: Throughput,
    /// Steps between which nothing else ran. The tokens of all rows of a step share its time.
    pub decode: Throughput,
}

impl Totals {
    /// Counts a request that has ended, `took` after it was accepted.
    pub fn finished(&self, receipt: &Receipt, took: Duration) {
        let Receipt { reason, usage } = receipt;
        self.ended[*reason as usize].add(1);
        self.whole.record(took);
        let Usage {
            prompt_tokens,
            cached_tokens,
            restored,
            reread_tokens,
            completion_tokens,
            queue_us,
            first_token_us,
            ..
        } = *usage;
        for (count, tokens) in [
            (&self.prompt_tokens, prompt_tokens),
            (&self.cached_tokens, cached_tokens),
            (&self.restored_tokens, restored),
            (&self.reread_tokens, reread_tokens),
        ] {
            count.add(tokens.into());
        }
        // A request that ended in the queue has no prompt, and one that ended during its prefill has no token.
        if prompt_tokens > 0 {
            self.queue.record(Duration::from_micros(queue_us));
        }
        if completion_tokens > 0 {
            let took = queue_us.saturating_add(first_token_us);
            self.first_token.record(Duration::from_micros(took));
        }
    }

    /// Counts a token of an answer. `since` is the time since the token before it; the first has none.
    pub fn token(&self, since: Option<Duration>) {
        self.generated_tokens.add(1);
        if let Some(since) = since {
            self.between_tokens.record(since);
        }
    }

    /// Returns the number of requests that ended for each reason.
    pub fn ended(&self) -> impl Iterator<Item = (FinishReason, u64)> {
        let reasons = FinishReason::ALL.into_iter();
        reasons.map(move |reason| (reason, self.ended[reason as usize].get()))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_by_its_receipt() {
        let totals = Totals::default();
        let usage = Usage {
            prompt_tokens: 20,
            cached_tokens: 12,
            completion_tokens: 3,
            queue_us: 1_500,
            first_token_us: 2_000,
            ..Usage::default()
        };
        let receipt = |reason, usage| Receipt { reason, usage };
        let took = Duration::from_millis(9);
        totals.finished(&receipt(FinishReason::Stop, usage), took);
        // It ended in the queue.
        totals.finished(&receipt(FinishReason::Cancelled, Usage::default()), took);
        let ended: Vec<_> = totals.ended().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            ended,
            [(FinishReason::Stop, 1), (FinishReason::Cancelled, 1)]
        );
        assert_eq!(totals.prompt_tokens.get(), 20);
        assert_eq!(totals.cached_tokens.get(), 12);
        assert_eq!(totals.whole.read().count, 2);
        assert_eq!(totals.queue.read().count, 1);
        let first = totals.first_token.read();
        assert_eq!(first.count, 1);
        assert!((first.sum - 0.0035).abs() < 1e-9, "{first:?}");
    }

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        for (at, reason) in FinishReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason:?}");
        }
    }
}
