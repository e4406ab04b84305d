//! Numbers that name requests and sessions. A caller cannot guess the numbers of others, or how many there are.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Generates random numbers of 64 bits, and never 0.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// If the system has no random bits yet, the numbers come from this secret and a count.
    secret: RandomState,
    made: AtomicU64,
}

impl Ids {
    /// Returns a number for which `is_used` is false.
    pub(crate) fn next(&self, is_used: impl Fn(u64) -> bool) -> u64 {
        loop {
            let made = self.made.fetch_add(1, Ordering::Relaxed);
            let id = getrandom::u64().unwrap_or_else(|_| self.secret.hash_one(made));
            if id != 0 && !is_used(id) {
                return id;
            }
        }
    }
}
