//! A session's name, and its file if it is persistent.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::engine::caller::client::ConnectionName;
use crate::engine::caller::request::Refusal;
use crate::session_store::{Entry, Name, Store, StoreError, Stored};

/// The name and the holder of a session.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: Name,
    /// Its file; `None` if it ends with the daemon.
    pub(crate) file: Option<SessionFile>,
    /// The connection that holds it.
    pub(crate) holder: Option<ConnectionName>,
    /// The default options of its requests.
    pub(crate) options: Map<String, Value>,
    /// The number of this release, so that the session released first is evicted first.
    pub(crate) released: u64,
    /// Whether a call is about to open it, so that it stays in memory and counts as held.
    pub(crate) opening: bool,
}

impl Named {
    /// Whether it is idle and persistent, so that it can be evicted without loss.
    pub(crate) fn is_evictable(&self) -> bool {
        self.holder.is_none() && self.file.is_some() && !self.opening
    }
}

/// A session's file.
#[derive(Clone, Debug)]
pub(crate) struct SessionFile {
    pub(crate) store: Arc<Store>,
    pub(crate) stored: Stored,
}

impl SessionFile {
    /// Appends an entry, as `Store::append`.
    pub(crate) fn append(
        &self,
        entry: Entry,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        self.store.append(&self.stored, entry, done);
    }

    /// Returns an error unless `bytes` may be added to it.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<(), Refusal> {
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

/// Runs work that waits for the disk on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = spawn_blocking(work).await.unwrap_or(Err(StoreError::Ended));
    done.map_err(Refusal::from)
}
