//! All requests of this process, from the call to the end of each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use crate::engine::caller::ids::Ids;
use crate::engine::caller::request::Priority;

/// Marks one request as cancelled, from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Registered {
    cancel: Cancel,
    /// Its priority once it is queued or active; a request that is only being encoded may still be refused.
    accepted: Option<Priority>,
    /// The task that waits for its deadline.
    deadline: Option<AbortHandle>,
}

/// All requests that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    by_id: Mutex<HashMap<u64, Registered>>,
    ids: Ids,
}

impl Requests {
    /// Returns an id that no other request has, and that cannot be guessed.
    pub(crate) fn id(&self) -> u64 {
        let by_id = self.lock();
        self.ids.next(|id| by_id.contains_key(&id))
    }

    pub(crate) fn begin(&self, id: u64) -> Cancel {
        let cancel = Cancel::default();
        let request = Registered {
            cancel: cancel.clone(),
            accepted: None,
            deadline: None,
        };
        self.lock().insert(id, request);
        cancel
    }

    pub(crate) fn accept(&self, id: u64, priority: Priority) {
        if let Some(request) = self.lock().get_mut(&id) {
            request.accepted = Some(priority);
        }
    }

    /// Returns the priority of a request that is queued or active.
    pub(crate) fn priority(&self, id: u64) -> Option<Priority> {
        self.lock().get(&id)?.accepted
    }

    /// Sets the task that waits for a request's deadline, which ends with the request.
    pub(crate) fn ends_at(&self, id: u64, deadline: AbortHandle) {
        match self.lock().get_mut(&id) {
            Some(request) => request.deadline = Some(deadline),
            None => deadline.abort(),
        }
    }

    /// Marks a request as cancelled, so that it ends at its next token.
    pub(crate) fn cancel(&self, id: u64) {
        if let Some(request) = self.lock().get(&id) {
            request.cancel.0.store(true, Ordering::Release);
        }
    }

    /// Ends a request. Returns whether it was queued or active.
    pub(crate) fn end(&self, id: u64) -> bool {
        let Some(request) = self.lock().remove(&id) else {
            return false;
        };
        if let Some(deadline) = request.deadline {
            deadline.abort();
        }
        request.accepted.is_some()
    }

    /// Returns the requests that are queued or active.
    pub(crate) fn accepted(&self) -> Vec<u64> {
        let requests = self.lock();
        let accepted = requests
            .iter()
            .filter(|(_, request)| request.accepted.is_some());
        accepted.map(|(id, _)| *id).collect()
    }

    /// Returns the number of requests that are queued or active.
    pub(crate) fn count(&self) -> usize {
        self.lock()
            .values()
            .filter(|request| request.accepted.is_some())
            .count()
    }

    /// Returns the numbers of requests of each priority that are queued or active, as `Priority::ALL` orders them.
    pub(crate) fn by_priority(&self) -> [u32; 3] {
        let requests = self.lock();
        Priority::ALL.map(|priority| {
            let accepted = requests.values().map(|request| request.accepted);
            let alike = accepted.filter(|of| *of == Some(priority)).count();
            u32::try_from(alike).unwrap_or(u32::MAX)
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Registered>> {
        self.by_id.lock()
    }
}
