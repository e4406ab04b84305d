//! The limits of a test's engine.

use std::time::Duration;

use ganglion::engine::{Limits, Share, UserLimits};

/// Returns limits with that many requests and sessions, all usable by each user, and that length of a prefill slice.
pub(crate) const fn limits(most: usize, slice: Duration) -> Limits {
    Limits {
        requests: most,
        queue: most,
        sessions: most,
        prefill: Share { slice, percent: 50 },
        grammar: ganglion::guide::Limits::USUAL,
        user: UserLimits {
            requests: most,
            sessions: most,
            queue_percent: 100,
            kv_percent: 100,
        },
    }
}
