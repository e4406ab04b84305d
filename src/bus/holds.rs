//! The active holds of each connection.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::owner::Caller;

/// The active holds: one for each connection at most, which ends when its sender is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(Arc<Mutex<HashMap<Caller, oneshot::Sender<()>>>>);

impl Holds {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Caller, oneshot::Sender<()>>> {
        self.0.lock()
    }

    /// Ends the hold of a connection that has left.
    pub(super) fn leave(&self, caller: &Caller) {
        self.lock().remove(caller);
    }

    /// Ends all holds, because the bus is lost.
    pub(super) fn lose(&self) {
        self.lock().clear();
    }
}
