//! Holds: while there is one, `background` is not answered. Who has begun rests where it is, and goes on afterwards.

use std::sync::Arc;

use super::Handle;
use super::queue::Queue;

/// One hold; dropping it ends it.
#[derive(Debug)]
pub struct Hold {
    queue: Arc<Queue>,
    id: u64,
}

impl Handle {
    /// Keeps `background` off the device; `reason` is for those who ask why.
    #[must_use]
    pub fn hold(&self, reason: String) -> Hold {
        let id = self.shared.requests.id();
        self.queue.hold(id, reason);
        Hold {
            queue: self.queue.clone(),
            id,
        }
    }

    /// Why `background` is held; empty if it is not.
    #[must_use]
    pub fn holds(&self) -> Vec<String> {
        self.queue.holds()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.queue.release(self.id);
    }
}
