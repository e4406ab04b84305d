//! A bounded queue of events, and the thread that sends them to the journal. Only this thread waits for the journal.
//!
//! The journal's socket fills up while the journal does not read, and a send then waits. Events that do not fit the
//! queue are dropped and counted, and the count is reported after the next event. The crate tracing-appender lacks this
//! count, the rate limit of callers, and events that must not be dropped.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::callers::{Callers, Cause, LeftOut};

/// A complete event; calling it sends it.
pub(super) type Record = Box<dyn FnOnce() + Send>;

/// The length of the queue: minutes of a busy daemon, in a few megabytes.
const CAPACITY: usize = 4096;

/// The longest time that the end of the process waits for the journal.
const FLUSH: Duration = Duration::from_secs(1);

/// Whether events of levels "debug" and "trace" are reported. Without a journal, as in tests and tools, they are.
static FINE: [AtomicBool; 2] = [const { AtomicBool::new(true) }; 2];

/// The queue of the process. Without one, as in tests and tools, events are sent by the thread that reports them.
static QUEUE: OnceLock<Arc<EventQueue>> = OnceLock::new();

thread_local! {
    /// Whether this is the thread that sends, whose own events bypass the queue.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// Functions that report events that were not sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summaries {
    /// Reports events beyond a user's rate.
    pub(super) left_out: fn(&LeftOut),
    /// Reports the number of events that did not fit the queue.
    pub(super) dropped: fn(u64),
}

#[derive(Debug)]
pub(super) struct EventQueue {
    state: Mutex<State>,
    changed: Condvar,
    summaries: Summaries,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Record>,
    /// Whether an event is being sent.
    sending: bool,
    dropped: u64,
    callers: Callers,
    /// Whether the process is about to end, so that all summaries are due.
    ending: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("pending", &self.pending.len())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Takes the next event or summary.
    fn next(&mut self, report: fn(&LeftOut)) -> Option<Record> {
        let left_out = if self.ending && self.pending.is_empty() {
            self.callers.last()
        } else {
            self.callers.due(Instant::now())
        };
        left_out
            .map(|left_out| Box::new(move || report(&left_out)) as Record)
            .or_else(|| self.pending.pop_front())
    }
}

impl EventQueue {
    pub(super) fn new(summaries: Summaries) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            summaries,
        }
    }

    /// Decides whether an event that a caller has caused is reported.
    fn admits(&self, cause: Cause, event: &'static str, level: Level) -> bool {
        let mut state = self.state.lock();
        let was_quiet = state.callers.next().is_none();
        let admitted = state.callers.admit(cause, event, level, Instant::now());
        if !admitted && was_quiet {
            // A summary is due at a certain time from here on.
            self.changed.notify_all();
        }
        admitted
    }

    pub(super) fn push(&self, record: Record) {
        let mut state = self.state.lock();
        if state.pending.len() < CAPACITY {
            state.pending.push_back(record);
            self.changed.notify_all();
        } else {
            state.dropped += 1;
        }
    }

    /// Adds an event that must not be dropped.
    fn push_always(&self, record: Record) {
        self.state.lock().pending.push_back(record);
        self.changed.notify_all();
    }

    /// Sends events as long as the process lives.
    pub(super) fn serve(&self) {
        SENDS.set(true);
        let Summaries {
            left_out,
            dropped: report_dropped,
        } = self.summaries;
        let mut state = self.state.lock();
        loop {
            if let Some(record) = state.next(left_out) {
                let dropped = std::mem::take(&mut state.dropped);
                state.sending = true;
                drop(state);
                record();
                if dropped > 0 {
                    report_dropped(dropped);
                }
                state = self.state.lock();
                state.sending = false;
                self.changed.notify_all();
            } else if let Some(next) = state.callers.next() {
                self.changed.wait_until(&mut state, next);
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Waits until everything is sent, at most `FLUSH`.
    fn flush(&self) {
        let until = Instant::now() + FLUSH;
        let mut state = self.state.lock();
        state.ending = true;
        self.changed.notify_all();
        while state.sending || !state.pending.is_empty() || state.callers.next().is_some() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

/// Makes `queue` the queue of the process.
pub(super) fn install(queue: Arc<EventQueue>) {
    // Like the subscriber, only the first queue counts.
    let _ = QUEUE.set(queue);
}

/// Whether an event of this level is formatted at all. Events from "info" up are always formatted, and filtered when
/// they are sent, so that a change of the filter is in order with them.
pub(super) fn is_wanted(level: Level) -> bool {
    match level {
        Level::DEBUG => FINE[0].load(Ordering::Relaxed),
        Level::TRACE => FINE[1].load(Ordering::Relaxed),
        _ => true,
    }
}

/// Sets the least severe level that is formatted.
pub(super) fn set_level(level: LevelFilter) {
    FINE[0].store(level >= LevelFilter::DEBUG, Ordering::Relaxed);
    FINE[1].store(level >= LevelFilter::TRACE, Ordering::Relaxed);
}

/// Decides whether an event that a caller has caused is reported; without a queue all are.
pub(super) fn admits(cause: Cause, event: &'static str, level: Level) -> bool {
    QUEUE
        .get()
        .is_none_or(|queue| queue.admits(cause, event, level))
}

pub(super) fn report(record: Record) {
    match QUEUE.get() {
        Some(queue) if !SENDS.get() => queue.push(record),
        _ => record(),
    }
}

/// Applies a change of the output between the events before and after it.
pub(super) fn change(record: Record) {
    match QUEUE.get() {
        Some(queue) => queue.push_always(record),
        None => record(),
    }
}

/// Waits a moment for pending events, before the process ends.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}
