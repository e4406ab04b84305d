//! Scripted standstills, which look like a hung driver or a blocked task.

/// Blocks this thread. Never returns.
pub(super) fn this_thread() -> ! {
    loop {
        std::thread::park();
    }
}

/// Blocks every worker of the runtime that this thread has entered.
pub(super) fn reactor() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // One worker may get several of the tasks.
        for _ in 0..4 * runtime.metrics().num_workers() {
            runtime.spawn(async { this_thread() });
        }
    }
}
