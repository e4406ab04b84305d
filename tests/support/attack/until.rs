//! The time limit of an attack, which can also be stopped early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A stop reaches its clones, too.
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

    /// Returns a shorter limit.
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
