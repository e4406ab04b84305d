//! What an engine of a test allows.

use std::time::Duration;

use ganglion::engine::{Limits, Share, UserLimits};

/// So many requests and sessions, all of them to each user; prompts are read in slices of so long while answers wait.
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
