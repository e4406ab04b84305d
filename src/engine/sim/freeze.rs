//! Scripted standstills: what a hung driver or a blocked task looks like from outside.

/// It never returns.
pub(super) fn this_thread() -> ! {
    loop {
        std::thread::park();
    }
}

/// Blocks every worker of the runtime that this thread has entered.
pub(super) fn reactor() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // More than workers, for one may be given several.
        for _ in 0..4 * runtime.metrics().num_workers() {
            runtime.spawn(async { this_thread() });
        }
    }
}
