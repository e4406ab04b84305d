//! A channel that publishes the engine's status, and every change of it.
//!
//! A status is replaced, never changed, so its readers delay nothing. It is not a queue: a slow reader misses values.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use super::status::Status;

/// Publishes the status. Receivers notice when it is dropped.
#[derive(Debug)]
pub(crate) struct StatusSender {
    status: Arc<ArcSwap<Status>>,
    /// Signals changes only: borrowing a value of this channel would lock it.
    changes: watch::Sender<()>,
}

/// Receives the status.
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

    /// Changes the status. `change` runs again if another thread changes it at the same time.
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
    /// Returns the current status.
    #[must_use]
    pub fn borrow(&self) -> Arc<Status> {
        self.status.load_full()
    }

    /// Returns the current status, and marks it as seen: `changed` waits for a later one.
    #[must_use]
    pub fn borrow_and_update(&mut self) -> Arc<Status> {
        self.changes.mark_unchanged();
        self.borrow()
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        self.changes.changed().await
    }

    /// Waits for a status that is as wanted, beginning with the current one.
    ///
    /// # Errors
    /// If the engine ends before.
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
    async fn a_held_status_delays_nothing_and_misses_no_change() {
        let sender = StatusSender::default();
        let mut reader = sender.subscribe();
        let held = reader.borrow_and_update();
        // This must not wait for the reader.
        sender.send_modify(|status| status.sessions += 1);
        sender.send_modify(|status| status.sessions += 1);
        assert_eq!(held.sessions, 0, "it changed under who holds it");
        assert!(reader.changed().await.is_ok());
        assert_eq!(reader.borrow_and_update().sessions, 2);
        drop(sender);
        assert!(reader.changed().await.is_err());
    }
}
