//! The sessions that are open, behind a lock that those take who change them, and the engine thread where a turn ends. Whoever
//! only wants to know how one stands reads what was shown last, and holds up nobody.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use super::sessions::{SessionId, SessionStatus, Sessions};

#[derive(Debug, Default)]
pub(crate) struct OpenSessions {
    sessions: Mutex<Sessions>,
    shown: ArcSwap<HashMap<SessionId, SessionStatus>>,
}

/// All of them, for one who may change them; what has changed is shown when it is dropped.
pub(crate) struct Locked<'a> {
    sessions: MutexGuard<'a, Sessions>,
    shown: &'a ArcSwap<HashMap<SessionId, SessionStatus>>,
    changed: bool,
}

impl OpenSessions {
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked {
            sessions: self.sessions.lock().unwrap_or_else(PoisonError::into_inner),
            shown: &self.shown,
            changed: false,
        }
    }

    /// How a session stands; `None` once it is closed.
    pub(crate) fn status(&self, id: SessionId) -> Option<SessionStatus> {
        self.shown.load().get(&id).copied()
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
            let shown = all.filter_map(|id| Some((*id, self.sessions.status(*id)?)));
            self.shown.store(Arc::new(shown.collect()));
        }
    }
}
