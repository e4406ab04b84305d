//! Releases the model's weights while nobody needs them: on an operator's call, after a time, or because memory is short.
//!
//! The engine thread releases them, and loads them again for the next request.

use std::time::Duration;

use tokio::sync::oneshot;

use super::handle::Handle;
use super::request::Refusal;
use crate::engine::intake::control::Control;

impl Handle {
    /// Releases the weights. Returns once they are released, or if they were already.
    ///
    /// # Errors
    /// `Active` while requests wait or are answered, `NotReady` while the model loads or the daemon stops.
    pub async fn release(&self) -> Result<(), Refusal> {
        self.answers()?;
        self.none_active()?;
        let (reply, answer) = oneshot::channel();
        self.queue.control(Control::Release(reply));
        answer.await.unwrap_or_else(|_| Err(self.shared.closed()))
    }

    fn none_active(&self) -> Result<(), Refusal> {
        match self.shared.requests.count() {
            0 => Ok(()),
            requests => Err(Refusal::Active { requests }),
        }
    }

    /// Sets the time without a request after which the weights are released; zero means never.
    pub fn unload_after(&self, after: Duration) {
        self.shared.set_unload_after(after);
        // The engine thread waits until the time that it knew.
        self.queue.pages_moved();
    }

    /// Has the engine thread release memory that nobody needs: caches first, and the weights at last.
    pub fn relieve_memory(&self) {
        self.queue.relieve();
    }
}
