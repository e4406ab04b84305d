//! Reports a panic of any thread to the journal, so that the service can end in order.

use std::backtrace::Backtrace;
use std::panic::{self, PanicHookInfo};

use tokio::sync::watch;

use crate::journal;
use crate::vision;

/// Whether a thread has panicked.
#[derive(Clone, Debug)]
pub(super) struct Panics(watch::Receiver<bool>);

impl Panics {
    /// Installs the hook that reports panics to the journal instead of stderr.
    pub(super) fn report() -> Self {
        let (seen, panics) = watch::channel(false);
        panic::set_hook(Box::new(move |panic| {
            // A decoder's panic is a damaged image, which is refused.
            if vision::is_decoding() {
                return;
            }
            report(panic);
            seen.send_replace(true);
        }));
        Self(panics)
    }

    /// Whether a thread has panicked.
    pub(super) fn seen(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the first panic.
    pub(super) async fn any(&mut self) {
        // The hook keeps the sender alive.
        let _ = self.0.wait_for(|seen| *seen).await;
    }
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string);
    // A formatted text may quote a caller's message: "byte index 3 is not a char boundary of ...".
    let text = panic.payload().downcast_ref::<&'static str>();
    journal::panicked(
        thread.name().unwrap_or("without a name"),
        place.as_deref().unwrap_or("an unknown place"),
        text.unwrap_or(&"its text may quote a request, and is left out"),
        // Addresses are included, because packaged programs have no symbols.
        &format!("{:#}", Backtrace::force_capture()),
    );
}
