//! How much may wait and be held, by everyone together and by each user. One value, so that it is changed as a whole.

use super::slices::Share;
use crate::guide;

/// What the configuration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that wait, are answered or are being read. Who reads is not the engine's to know: its callers count.
    pub requests: usize,
    /// Requests that may wait behind those that are answered.
    pub queue: usize,
    /// Sessions that may be open.
    pub sessions: usize,
    /// What reading prompts may take while answers wait.
    pub prefill: Share,
    /// What the grammar of an answer may cost.
    pub grammar: guide::Limits,
    /// Each user has these beside those of all.
    pub user: UserLimits,
}

/// What one user may have of it; root is a user like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    pub requests: usize,
    pub sessions: usize,
    /// A user may take so much of the queue, in percent.
    pub queue_percent: usize,
    /// The requests of a user that run may together take so much of the cache's pages, in percent.
    pub kv_percent: usize,
}

impl Limits {
    /// Requests of one user that may wait: at least one, or it could never ask.
    #[must_use]
    pub fn user_queue(&self) -> usize {
        (self.queue * self.user.queue_percent / 100).max(1)
    }

    /// How many of so many pages the running requests of one user may take.
    #[must_use]
    pub fn user_pages(&self, pages: usize) -> usize {
        (pages * self.user.kv_percent / 100).max(1)
    }
}
