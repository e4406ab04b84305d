//! Holds keep `background` requests, or all, off the device while they are active.
//!
//! A hold suspends a request that has begun, which resumes afterwards.

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::handle::Handle;
use super::held::{ActiveHold, Held};
use crate::engine::intake::queue::Queue;

/// One hold; dropping it ends it.
#[derive(Debug)]
pub struct Hold {
    queue: Arc<Queue>,
    id: u64,
}

impl Handle {
    /// Keeps requests off the device until the value is dropped, which its owner does after `longest` at the latest.
    #[must_use]
    pub fn hold(&self, client: Client, held: Held, reason: String, longest: Duration) -> Hold {
        let id = self.shared.requests.id();
        let active = ActiveHold::new(client, held, reason, longest);
        self.queue.hold(id, active);
        Hold {
            queue: self.queue.clone(),
            id,
        }
    }

    /// Returns the active holds, oldest first.
    #[must_use]
    pub fn holds(&self) -> Arc<Vec<ActiveHold>> {
        self.queue.holds()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.queue.release(self.id);
    }
}
