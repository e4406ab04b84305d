//! Counts for `/metrics`: open connections, and responses by status.
//!
//! The limits of connections are in `server::places`. A response that hyper writes by itself, to bytes that are not HTTP, is not
//! counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use parking_lot::Mutex;

/// The counts; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    connections: AtomicUsize,
    responses: Mutex<BTreeMap<u16, u64>>,
}

/// An open connection; dropping it ends its count.
#[derive(Debug)]
pub(super) struct Open(Traffic);

impl Traffic {
    /// Counts a connection until the value is dropped.
    pub(super) fn open(&self) -> Open {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Counts a response.
    pub(super) fn respond(&self, status: StatusCode) {
        let mut responses = self.0.responses.lock();
        *responses.entry(status.as_u16()).or_default() += 1;
    }

    /// Returns the number of open connections.
    pub(super) fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of responses with each status that occurred.
    pub(super) fn responses(&self) -> BTreeMap<u16, u64> {
        self.0.responses.lock().clone()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
