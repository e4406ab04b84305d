//! Numbers that name requests and sessions on the bus. A caller learns from its own neither how many others there are nor
//! how one of them is called.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes numbers of 64 random bits, none of which is 0.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Where the system has no random bits at hand, the numbers come from this secret and a count.
    secret: RandomState,
    made: AtomicU64,
}

impl Ids {
    /// The next number; `is_used` refuses one that something else has.
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
