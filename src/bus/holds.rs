//! The holds that last, each with the connection whose it is.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::authorize::Caller;

/// These are the holds that last: each connection has its own, which ends when its sender is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(Arc<Mutex<HashMap<Caller, oneshot::Sender<()>>>>);

impl Holds {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Caller, oneshot::Sender<()>>> {
        self.0.lock()
    }

    /// A connection has left.
    pub(super) fn leave(&self, caller: &Caller) {
        self.lock().remove(caller);
    }

    /// The bus is lost, and everyone with it.
    pub(super) fn lose(&self) {
        self.lock().clear();
    }
}
