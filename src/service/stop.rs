//! The orderly stop: no new requests, time for those that run, an end for every stream.

use std::time::Duration;

use tokio::time::timeout;

use super::notify;
use super::signals::Signals;
use super::source::Thread;
use crate::bus::Bus;
use crate::engine::Handle;
use crate::journal;

/// What a cancelled request may take to end: one step, on a slow board with a long prompt.
const CANCEL: Duration = Duration::from_secs(2);
/// What readers get to take what has been generated; one that does not read is left behind.
const FLUSH: Duration = Duration::from_secs(1);
/// The same where a failure is all there is to be read, on a machine that has other things to do.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a stop may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// Requests that run get so long.
    pub(super) grace: Duration,
    /// Pages of sessions on their way to the disk get so long.
    pub(super) pages: Duration,
}

/// Lets requests run for `grace`, or until a second signal, or as long as the engine does; then cancels them.
pub(super) async fn stop(
    engine: &Handle,
    bus: Bus,
    mut thread: Thread,
    Time { grace, pages }: Time,
    signals: &mut Signals,
) {
    // After the grace comes what follows here, the journal's last events, and a little: a stop that takes longer is stuck.
    notify::stopping(grace + CANCEL + pages + 5 * FLUSH);
    journal::stopping(engine.status().borrow().queue_length);
    engine.begin_stop();
    tokio::select! {
        _ = timeout(grace, engine.idle()) => {}
        () = signals.next() => {}
        // Nobody is left to answer them.
        () = thread.ended() => {}
    }
    engine.cancel_all();
    tokio::select! {
        _ = timeout(CANCEL, engine.idle()) => {}
        () = thread.ended() => {}
    }
    let _ = timeout(FLUSH, bus.delivered()).await;
    engine.close();
    // A load cannot be interrupted; it ends with the process.
    let _ = timeout(pages + FLUSH, thread.ended()).await;
    let _ = timeout(FLUSH, bus.leave()).await;
    let sessions = engine.clone();
    let finish = tokio::task::spawn_blocking(move || sessions.finish_sessions());
    let _ = timeout(FLUSH, finish).await;
}

/// Lets everyone who waits read how it ended, after a failure. Nobody waits for the end of such a process, and the answer
/// is all that its callers get.
pub(super) async fn tell(bus: Bus) {
    let _ = timeout(FLUSH, bus.delivered()).await;
    let _ = timeout(FAREWELL, bus.leave()).await;
}
