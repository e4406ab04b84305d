//! The orderly stop: new requests are refused, active ones get a grace period, and every stream is ended.

use std::time::Duration;

use tokio::time::timeout;

use super::notify;
use super::signals::Signals;
use super::source::Thread;
use crate::bus::Bus;
use crate::engine::Handle;
use crate::http::Http;
use crate::journal;

/// The longest time that a cancelled request takes to end: one step, on a slow board with a long prompt.
const CANCEL: Duration = Duration::from_secs(2);
/// The time in which readers can take the remaining output.
const FLUSH: Duration = Duration::from_secs(1);
/// The time in which callers can read the reason of a failure, on a busy machine.
const FAREWELL: Duration = Duration::from_secs(5);

/// The limits of a stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// The grace period of active requests.
    pub(super) grace: Duration,
    /// The time to write pages of sessions to the disk.
    pub(super) pages: Duration,
}

/// Waits for active requests until `grace` has passed, a second signal arrives or the engine ends; then cancels them.
pub(super) async fn stop(
    engine: &Handle,
    bus: Bus,
    http: &Http,
    mut thread: Thread,
    Time { grace, pages }: Time,
    signals: &mut Signals,
) {
    // The grace period, the steps below, and the journal's last events: a longer stop is stuck.
    notify::stopping(grace + CANCEL + pages + 6 * FLUSH);
    journal::stopping(engine.status().borrow().queue_length);
    engine.begin_stop();
    http.stop();
    tokio::select! {
        _ = timeout(grace, engine.idle()) => {}
        () = signals.next() => {}
        // Without the engine no request can finish.
        () = thread.ended() => {}
    }
    engine.cancel_all();
    tokio::select! {
        _ = timeout(CANCEL, engine.idle()) => {}
        () = thread.ended() => {}
    }
    let _ = timeout(FLUSH, bus.delivered()).await;
    let _ = timeout(FLUSH, http.ended()).await;
    engine.close();
    // A load cannot be interrupted; it ends with the process.
    let _ = timeout(pages + FLUSH, thread.ended()).await;
    let _ = timeout(FLUSH, bus.leave()).await;
    let sessions = engine.clone();
    let finish = tokio::task::spawn_blocking(move || sessions.finish_sessions());
    let _ = timeout(FLUSH, finish).await;
}

/// Delivers the reason of a failure to waiting callers, and leaves the bus.
pub(super) async fn deliver_failure(bus: Bus, http: &Http) {
    http.stop();
    let _ = timeout(FLUSH, bus.delivered()).await;
    let _ = timeout(FLUSH, http.ended()).await;
    let _ = timeout(FAREWELL, bus.leave()).await;
}
