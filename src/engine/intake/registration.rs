//! The registration of a request, as long as the request lasts.

use std::sync::Arc;

use super::requests::Cancel;
use super::shared::Shared;
use crate::engine::caller::request::Priority;

/// Registers a request until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    shared: Arc<Shared>,
    id: u64,
    cancel: Cancel,
}

impl Registration {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let id = shared.requests.id();
        Self {
            shared: shared.clone(),
            id,
            cancel: shared.requests.begin(id),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Counts it among the requests that are queued or active.
    pub(crate) fn accept(&self, priority: Priority) {
        self.shared.requests.accept(self.id, priority);
        self.shared.publish(|_| ());
    }

    /// Ends the request in the published count. Returns whether it was counted so far.
    pub(crate) fn end(&self) -> bool {
        self.shared.requests.end(self.id)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.end() {
            self.shared.publish(|_| ());
        }
    }
}
