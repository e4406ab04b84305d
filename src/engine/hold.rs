//! Holds: while there is one, `background` is not answered, or nobody is. Who has begun rests where it is, and goes on
//! afterwards.

use std::sync::Arc;

use super::queue::Queue;
use super::{Handle, Held};

/// One hold; dropping it ends it.
#[derive(Debug)]
pub struct Hold {
    queue: Arc<Queue>,
    id: u64,
}

impl Handle {
    /// Keeps requests off the device; `reason` is for those who ask why.
    #[must_use]
    pub fn hold(&self, held: Held, reason: String) -> Hold {
        let id = self.shared.requests.id();
        self.queue.hold(id, held, reason);
        Hold {
            queue: self.queue.clone(),
            id,
        }
    }

    /// What is held, and each reason.
    #[must_use]
    pub fn holds(&self) -> (Held, Vec<String>) {
        self.queue.holds()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.queue.release(self.id);
    }
}
