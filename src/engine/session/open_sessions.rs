//! The open sessions, behind a lock, and a published copy of their status.
//!
//! Calls that change a session take the lock, and so does the engine thread at the end of a request. Readers of a status
//! take no lock.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use super::sessions::{SessionId, SessionStatus, Sessions};

#[derive(Debug, Default)]
pub(crate) struct OpenSessions {
    sessions: Mutex<Sessions>,
    published: ArcSwap<HashMap<SessionId, SessionStatus>>,
}

/// The locked sessions. Dropping it publishes their status, if they were changed.
pub(crate) struct Locked<'a> {
    sessions: MutexGuard<'a, Sessions>,
    published: &'a ArcSwap<HashMap<SessionId, SessionStatus>>,
    changed: bool,
}

impl OpenSessions {
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked {
            sessions: self.sessions.lock().unwrap_or_else(PoisonError::into_inner),
            published: &self.published,
            changed: false,
        }
    }

    /// Returns the published status of a session; `None` once it is closed.
    pub(crate) fn status(&self, id: SessionId) -> Option<SessionStatus> {
        self.published.load().get(&id).copied()
    }
}

impl Deref for Locked<'_> {
    type Target = Sessions;

    fn deref(&self) -> &Sessions {
        &self.sessions
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Sessions {
        self.changed = true;
        &mut self.sessions
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.changed {
            let all = self.sessions.open.keys();
            let published = all.filter_map(|id| Some((*id, self.sessions.status(*id)?)));
            self.published.store(Arc::new(published.collect()));
        }
    }
}
