//! The limits of requests and sessions, of all users together and of each. They change together, as one value.

use crate::engine::schedule::slices::Share;
use crate::guide;

/// The limits that the configuration sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that wait, are answered, or whose output is still read. The front ends count them.
    pub requests: usize,
    /// Requests that may wait behind the running one.
    pub queue: usize,
    /// Sessions that may be open.
    pub sessions: usize,
    /// The time that prefills may take while answers wait.
    pub prefill: Share,
    /// The cost of the grammar of an answer.
    pub grammar: guide::Limits,
    /// The limits of each user.
    pub user: UserLimits,
}

/// The limits of one user. Root is a user like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    pub requests: usize,
    pub sessions: usize,
    /// The percentage of the queue that a user's requests may take.
    pub queue_percent: usize,
    /// The percentage of the cache's pages that a user's active requests may take.
    pub kv_percent: usize,
}

impl Limits {
    /// Returns how many requests of one user may wait: at least one.
    #[must_use]
    pub fn user_queue(&self) -> usize {
        (self.queue * self.user.queue_percent / 100).max(1)
    }

    /// Returns how many of `pages` the active requests of one user may take.
    #[must_use]
    pub fn user_pages(&self, pages: usize) -> usize {
        (pages * self.user.kv_percent / 100).max(1)
    }
}
