//! A session's name, and its file where it has one.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::{ConnectionName, Refusal};
use crate::session_store::{Entry, Name, Store, StoreError, Stored};

/// A name, and who holds the session.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: Name,
    /// Where it is kept; `None` if it ends with the daemon.
    pub(super) file: Option<Kept>,
    /// The connection that uses it.
    pub(super) holder: Option<ConnectionName>,
    /// What its turns start from, as its caller gave it.
    pub(super) options: Map<String, Value>,
    /// Counts those that were let go, so that the first of them can be forgotten first.
    pub(super) let_go: u64,
    /// Whether a call is about to open it, so that it stays in memory and counts as held.
    pub(super) asked: bool,
}

impl Named {
    /// Whether it is idle and persistent: it can be evicted without a loss.
    pub(super) fn rests(&self) -> bool {
        self.holder.is_none() && self.file.is_some() && !self.asked
    }
}

/// A session's file.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) store: Arc<Store>,
    pub(super) stored: Stored,
}

impl Kept {
    /// As `Store::append`.
    pub(super) fn append(
        &self,
        entry: Entry,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        self.store.append(&self.stored, entry, done);
    }

    /// Whether so many bytes may be added to it.
    pub(super) async fn admit(&self, bytes: usize) -> Result<(), Refusal> {
        let Self { store, stored } = self.clone();
        blocking(move || store.admit(&stored, bytes as u64)).await
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        match error {
            StoreError::Sessions { .. } => Self::Quota {
                key: "sessions.per_user",
                why,
            },
            StoreError::Bytes { .. } => Self::Quota {
                key: "sessions.mib_per_user",
                why,
            },
            _ => Self::Unkept(why),
        }
    }
}

/// Waits for the disk beside the threads that answer.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = spawn_blocking(work).await.unwrap_or(Err(StoreError::Ended));
    done.map_err(Refusal::from)
}
