//! Cancels the requests of a session, and waits for their end.
//!
//! It does not prevent requests that begin afterwards.

use super::sessions::{SessionId, Sessions};
use crate::engine::caller::handle::Handle;

impl Handle {
    /// Cancels a session's prefill ahead, and waits for its end.
    pub(crate) async fn stop_prefill(&self, id: SessionId) {
        // A request that began meanwhile must not be cancelled.
        self.end_turns(id, |sessions| sessions.prefills_ahead(id))
            .await;
    }

    /// Cancels a session's request, and waits for its end.
    pub(super) async fn idle_session(&self, id: SessionId) {
        self.end_turns(id, |_| true).await;
    }

    /// Cancels a session's requests while `ends` is true, and waits for their end.
    async fn end_turns(&self, id: SessionId, ends: impl Fn(&Sessions) -> bool) {
        let ended = self.shared.sessions().ended.clone();
        loop {
            let end = ended.notified();
            tokio::pin!(end);
            // The end is noticed from here on.
            end.as_mut().enable();
            let turn = {
                let sessions = self.shared.sessions();
                let turn = sessions.open.get(&id).and_then(|one| one.turn);
                turn.filter(|_| ends(&sessions))
            };
            let Some(ticket) = turn else {
                return;
            };
            self.cancel(ticket);
            end.await;
        }
    }
}
