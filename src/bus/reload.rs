//! Calls of `Manager.Reload`, on their way to the service, which reads the configuration.

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::error::Error;

/// Calls that may wait behind the active one.
const WAITING: usize = 8;

/// One call. Dropped without an answer, it answers that the daemon is stopping.
#[derive(Debug)]
pub struct ReloadCall(oneshot::Sender<Result<(), Error>>);

impl ReloadCall {
    /// Answers the call: the configuration is applied, or the reason why it is not.
    pub fn answer(self, result: Result<(), Error>) {
        // The caller may have left.
        let _ = self.0.send(result);
    }
}

/// Both ends of the queue, until `take` takes the receiver.
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
    /// Returns the receiver of the calls; a second one receives nothing.
    pub(super) fn take(&self) -> mpsc::Receiver<ReloadCall> {
        let taken = self.taker.lock().take();
        taken.unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// Queues a call, and waits for its answer. `closed` is the error if the receiver has ended.
    pub(super) async fn call(&self, closed: impl Fn() -> Error) -> Result<(), Error> {
        if self.taker.lock().is_some() {
            let message = "this daemon has no configuration to reload";
            return Err(Error::NotSupported(message.to_owned()));
        }
        let (reply, answer) = oneshot::channel();
        self.calls
            .try_send(ReloadCall(reply))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Error::Busy(format!(
                    "{WAITING} reloads are waiting already; each reads the whole configuration, so one is enough"
                )),
                mpsc::error::TrySendError::Closed(_) => closed(),
            })?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}
