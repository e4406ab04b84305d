//! How long an attack goes on: for a time, or until somebody has seen enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Its clones are told, too.
#[derive(Clone, Debug)]
pub(crate) struct Until {
    at: Instant,
    enough: Arc<AtomicBool>,
}

impl Until {
    pub(crate) fn after(time: Duration) -> Self {
        Self {
            at: Instant::now() + time,
            enough: Arc::default(),
        }
    }

    /// The same, but no longer than that time from now.
    pub(crate) fn within(&self, time: Duration) -> Self {
        Self {
            at: self.at.min(Instant::now() + time),
            enough: self.enough.clone(),
        }
    }

    pub(crate) fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.enough.load(Ordering::Relaxed) || Instant::now() >= self.at
    }
}
