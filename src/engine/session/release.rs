//! The release of a session by its holder, and the eviction of the sessions that were released first.
//!
//! It deletes nothing from the disk.

use super::sessions::{Lease, SessionId, Sessions};
use crate::engine::caller::client::ConnectionName;
use crate::engine::caller::handle::Handle;

impl Handle {
    /// Releases a session of a connection: its request is cancelled, and a session without a name ends. Returns whether the
    /// connection held it.
    #[allow(clippy::must_use_candidate)] // most callers ignore it
    pub fn release_session(&self, session: impl Into<Lease>, holder: &ConnectionName) -> bool {
        let lease = session.into();
        let id = lease.session;
        let most = self.limits().sessions;
        let mut sessions = self.shared.sessions();
        if sessions.lease(id).is_some_and(|of| !lease.is(of.number())) {
            // Another connection has taken it.
            return false;
        }
        let released = sessions.releases + 1;
        let Some(session) = sessions.open.get_mut(&id) else {
            return true;
        };
        let Some(named) = &mut session.named else {
            drop(sessions);
            self.close_session(id);
            return true;
        };
        if named.holder.as_ref() != Some(holder) {
            return false;
        }
        named.holder = None;
        named.released = released;
        let turn = session.turn;
        sessions.releases = released;
        let evicted = sessions.evict_oldest(most);
        drop(sessions);
        if let Some(ticket) = turn {
            self.cancel(ticket);
        }
        for session in evicted {
            self.queue.forget(session, true);
        }
        self.publish_sessions();
        true
    }
}

impl Sessions {
    /// Evicts idle persistent sessions from memory, those released first, so that at most `most` stay.
    fn evict_oldest(&mut self, most: usize) -> Vec<SessionId> {
        let idle = self.open.iter().filter_map(|(id, session)| {
            let named = session
                .named
                .as_ref()
                .filter(|named| named.is_evictable())?;
            session.turn.is_none().then_some((named.released, *id))
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        idle.truncate(idle.len().saturating_sub(most));
        for (_, id) in &idle {
            self.open.remove(id);
        }
        idle.into_iter().map(|(_, id)| id).collect()
    }
}
