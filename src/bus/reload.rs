//! Calls of `Manager.Reload` on their way to whoever reads the configuration: the bus knows no file.

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::Error;

/// Calls that may wait for the one before.
const WAITING: usize = 8;

/// One call; dropped unanswered, it tells its caller why nothing is accepted any more.
#[derive(Debug)]
pub struct ReloadCall(oneshot::Sender<Result<(), Error>>);

impl ReloadCall {
    /// The configuration is in force, or why it is not.
    pub fn answer(self, result: Result<(), Error>) {
        // The caller may have gone.
        let _ = self.0.send(result);
    }
}

/// Both ends, until one of them is taken.
#[derive(Debug)]
pub(super) struct Reloads {
    calls: mpsc::Sender<ReloadCall>,
    taker: Mutex<Option<mpsc::Receiver<ReloadCall>>>,
}

impl Default for Reloads {
    fn default() -> Self {
        let (calls, taker) = mpsc::channel(WAITING);
        Self {
            calls,
            taker: Mutex::new(Some(taker)),
        }
    }
}

impl Reloads {
    /// The end that answers. A second one hears nothing.
    pub(super) fn take(&self) -> mpsc::Receiver<ReloadCall> {
        let taken = self.taker.lock().take();
        taken.unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// Waits its turn, and for its answer. `closed` says why there is nobody any more to give one.
    pub(super) async fn call(&self, closed: impl Fn() -> Error) -> Result<(), Error> {
        if self.taker.lock().is_some() {
            let message = "nobody here reads a configuration";
            return Err(Error::NotSupported(message.to_owned()));
        }
        let (reply, answer) = oneshot::channel();
        self.calls
            .try_send(ReloadCall(reply))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Error::Busy(format!(
                    "{WAITING} reloads wait already; each reads all of the configuration, so one is enough"
                )),
                mpsc::error::TrySendError::Closed(_) => closed(),
            })?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}
