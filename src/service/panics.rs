//! A panic is a bug of ours, on whatever thread: it is told with its backtrace, and the service ends in order.

use std::backtrace::Backtrace;
use std::panic::{self, PanicHookInfo};

use tokio::sync::watch;

use crate::journal;

/// Whether there was one.
#[derive(Clone, Debug)]
pub(super) struct Panics(watch::Receiver<bool>);

impl Panics {
    /// From now on the journal has them, in place of stderr.
    pub(super) fn report() -> Self {
        let (seen, panics) = watch::channel(false);
        panic::set_hook(Box::new(move |panic| {
            report(panic);
            seen.send_replace(true);
        }));
        Self(panics)
    }

    /// Whether there has been one.
    pub(super) fn seen(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns after the first.
    pub(super) async fn any(&mut self) {
        // The hook has the sender, and stays.
        let _ = self.0.wait_for(|seen| *seen).await;
    }
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string);
    // A text that was put together may quote what a caller wrote: "byte index 3 is not a char boundary of ...".
    let text = panic.payload().downcast_ref::<&'static str>();
    journal::panicked(
        thread.name().unwrap_or("without a name"),
        place.as_deref().unwrap_or("an unknown place"),
        text.unwrap_or(&"its text may quote a request, and is left out"),
        // With addresses: packaged programs hold no names.
        &format!("{:#}", Backtrace::force_capture()),
    );
}
