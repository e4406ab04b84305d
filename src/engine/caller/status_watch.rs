//! What the engine tells about itself, and every change of it, to whoever follows.
//!
//! Nobody who reads holds anything that the engine would wait for: a status is never changed, another takes its place. It
//! is no queue: whoever is slow misses what was between.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use super::status::Status;

/// Where a status is told. Followers learn it when this is dropped.
#[derive(Debug)]
pub(crate) struct StatusSender {
    status: Arc<ArcSwap<Status>>,
    /// It says only that something has changed: the value of this channel is never borrowed, which would lock it.
    changes: watch::Sender<()>,
}

/// Follows what the engine tells about itself.
#[derive(Clone, Debug)]
pub struct StatusReceiver {
    status: Arc<ArcSwap<Status>>,
    changes: watch::Receiver<()>,
}

impl Default for StatusSender {
    fn default() -> Self {
        Self {
            status: Arc::new(ArcSwap::from_pointee(Status::default())),
            changes: watch::Sender::new(()),
        }
    }
}

impl StatusSender {
    pub(crate) fn subscribe(&self) -> StatusReceiver {
        StatusReceiver {
            status: self.status.clone(),
            changes: self.changes.subscribe(),
        }
    }

    pub(crate) fn borrow(&self) -> Arc<Status> {
        self.status.load_full()
    }

    /// Changes what is told; the change is made again if somebody else changes it at the same time.
    pub(crate) fn send_modify(&self, mut change: impl FnMut(&mut Status)) {
        self.status.rcu(|status| {
            let mut status = Status::clone(status);
            change(&mut status);
            status
        });
        self.changes.send_replace(());
    }
}

impl StatusReceiver {
    /// The status of this moment.
    #[must_use]
    pub fn borrow(&self) -> Arc<Status> {
        self.status.load_full()
    }

    /// The same; only what changes from now on is a change for `changed`.
    #[must_use]
    pub fn borrow_and_update(&mut self) -> Arc<Status> {
        self.changes.mark_unchanged();
        self.borrow()
    }

    /// Returns after the next change.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        self.changes.changed().await
    }

    /// The first status, from this one on, that is as wanted.
    ///
    /// # Errors
    /// If the engine is gone before.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Result<Arc<Status>, RecvError> {
        loop {
            let status = self.borrow_and_update();
            if wanted(&status) {
                return Ok(status);
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_holds_a_status_holds_up_nobody_and_misses_no_change() {
        let sender = StatusSender::default();
        let mut reader = sender.subscribe();
        let held = reader.borrow_and_update();
        // It would wait for ever for who holds one.
        sender.send_modify(|status| status.sessions += 1);
        sender.send_modify(|status| status.sessions += 1);
        assert_eq!(held.sessions, 0, "it changed under who holds it");
        assert!(reader.changed().await.is_ok());
        assert_eq!(reader.borrow_and_update().sessions, 2);
        drop(sender);
        assert!(reader.changed().await.is_err());
    }
}
