//! Changes of a session that are not turns: rewinds, appended messages, default options.
//!
//! A change is written to the session's file before it is applied. Turns are not applied here.

use tokio::sync::oneshot;

use super::sessions::{Lease, Session};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::Refusal;
use crate::session_store::{Entry, StoreError};

/// The request id of a session that is busy without a request.
const NO_REQUEST: u64 = 0;

impl Handle {
    /// Changes a session by something else than a turn, once that is on the disk. `entry` returns the change, if there is one.
    pub(crate) async fn change(
        &self,
        lease: Lease,
        entry: impl FnOnce(&Session) -> Result<Option<Entry>, Refusal>,
    ) -> Result<(), Refusal> {
        let id = lease.session;
        let (kept, entry, stored) = {
            let mut sessions = self.without_prefill(id).await;
            let session = sessions.idle(lease)?;
            let Some(entry) = entry(session)? else {
                return Ok(());
            };
            let Some(kept) = session.file().cloned() else {
                // No request of the session begins before that.
                if let Some(keep) = session.apply(entry) {
                    self.queue.rewind(id, keep);
                }
                return Ok(());
            };
            // This prevents other changes meanwhile.
            session.turn = Some(NO_REQUEST);
            let stored = session.stored(entry.clone());
            (kept, entry, stored)
        };
        let (reply, result) = oneshot::channel();
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        kept.append(stored, move |kept| {
            let mut sessions = shared.sessions();
            let session = sessions.open.get_mut(&id);
            let session = session.filter(|_| kept.is_ok());
            if let Some(keep) = session.and_then(|session| session.apply(entry)) {
                queue.rewind(id, keep);
            }
            sessions.end_turn(id, None);
            drop(sessions);
            let _ = reply.send(kept);
        });
        let kept = result.await.unwrap_or(Err(StoreError::Ended));
        kept.map_err(Refusal::from)
    }
}

impl Session {
    /// Applies a change that is not a turn. Returns the number of tokens that are left, if it is a rewind.
    pub(super) fn apply(&mut self, entry: Entry) -> Option<usize> {
        match entry {
            Entry::Rewound { turns } => return self.rewind(turns),
            Entry::Appended { messages } => self.append(messages),
            Entry::Options { options } => {
                if let Some(named) = &mut self.named {
                    named.options = options;
                }
            }
            Entry::Opened { .. } | Entry::Turn(_) => {}
        }
        None
    }
}
