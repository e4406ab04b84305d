//! Holds: while there is one, `background` is not answered. Who has begun rests where it is, and goes on afterwards.

use std::sync::Arc;

use super::Handle;
use super::handle::Shared;

/// One hold; dropping it ends it.
#[derive(Debug)]
pub struct Hold {
    shared: Arc<Shared>,
    id: u64,
}

impl Handle {
    /// Keeps `background` off the device; `reason` is for those who ask why.
    #[must_use]
    pub fn hold(&self, reason: String) -> Hold {
        let id = self.next_id();
        self.shared.queue.hold(id, reason);
        Hold {
            shared: self.shared.clone(),
            id,
        }
    }

    /// Why `background` is held; empty if it is not.
    #[must_use]
    pub fn holds(&self) -> Vec<String> {
        self.shared.queue.holds()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.queue.release(self.id);
    }
}
