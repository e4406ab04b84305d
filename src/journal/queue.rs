//! Between those who report and the journal: a bounded queue, and a thread of its own that alone waits.
//!
//! The journal's socket fills up while nobody reads it, and a send then waits. So nothing is sent where it happens: it
//! is put into the queue, and what no longer fits is dropped and counted. How much that was is told with the next
//! event that gets through.
//!
//! The crate tracing-appender is not used: it writes bytes to a file, drops without telling how many by a later event, and
//! knows neither callers of whom too much is left out nor an event that must not be dropped.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::callers::{Callers, Cause, LeftOut};

/// An event, complete: all that is left is to tell it.
pub(super) type Record = Box<dyn FnOnce() + Send>;

/// Events that may wait: minutes of a busy daemon, in a few megabytes.
const CAPACITY: usize = 4096;

/// What the end of the process may wait for a journal that does not read.
const FLUSH: Duration = Duration::from_secs(1);

/// Whether events below "info" are reported: "debug", and "trace" too. Without a journal, as in tests and tools, they are.
static FINE: [AtomicBool; 2] = [const { AtomicBool::new(true) }; 2];

/// Where the process reports; without it, as in tests and tools, events are told where they happen.
static WAY: OnceLock<Arc<EventQueue>> = OnceLock::new();

thread_local! {
    /// Whether this is the thread that tells: what it reports itself cannot wait for it.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// How it is told what was not told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summaries {
    /// So much was left out of callers that cause too much.
    pub(super) left_out: fn(&LeftOut),
    /// So many did not fit.
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
    waiting: VecDeque<Record>,
    /// Whether one has been taken out and not been told yet.
    telling: bool,
    dropped: u64,
    callers: Callers,
    /// Whether the process is about to end: what is still to be told is told now.
    ending: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting.len())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl State {
    /// The next thing to tell.
    fn next(&mut self, tell: fn(&LeftOut)) -> Option<Record> {
        let left_out = if self.ending && self.waiting.is_empty() {
            self.callers.last()
        } else {
            self.callers.due(Instant::now())
        };
        left_out
            .map(|left_out| Box::new(move || tell(&left_out)) as Record)
            .or_else(|| self.waiting.pop_front())
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

    /// Whether an event that a caller has caused is told.
    fn admits(&self, cause: Cause, event: &'static str, level: Level) -> bool {
        let mut state = self.state.lock();
        let was_quiet = state.callers.next().is_none();
        let told = state.callers.admit(cause, event, level, Instant::now());
        if !told && was_quiet {
            // Now there is a time by which a summary is to be told.
            self.changed.notify_all();
        }
        told
    }

    pub(super) fn push(&self, record: Record) {
        let mut state = self.state.lock();
        if state.waiting.len() < CAPACITY {
            state.waiting.push_back(record);
            self.changed.notify_all();
        } else {
            state.dropped += 1;
        }
    }

    /// Takes one that must not be dropped.
    fn push_always(&self, record: Record) {
        self.state.lock().waiting.push_back(record);
        self.changed.notify_all();
    }

    /// Tells what comes in, for as long as the process lives.
    pub(super) fn serve(&self) {
        TELLS.set(true);
        let Summaries {
            left_out,
            dropped: tell_dropped,
        } = self.summaries;
        let mut state = self.state.lock();
        loop {
            if let Some(record) = state.next(left_out) {
                let dropped = std::mem::take(&mut state.dropped);
                state.telling = true;
                drop(state);
                record();
                if dropped > 0 {
                    tell_dropped(dropped);
                }
                state = self.state.lock();
                state.telling = false;
                self.changed.notify_all();
            } else if let Some(next) = state.callers.next() {
                self.changed.wait_until(&mut state, next);
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Waits until all has been told, or for as long as the end of a process may wait.
    fn flush(&self) {
        let until = Instant::now() + FLUSH;
        let mut state = self.state.lock();
        state.ending = true;
        self.changed.notify_all();
        while state.telling || !state.waiting.is_empty() || state.callers.next().is_some() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

/// From now on events go through `queue`.
pub(super) fn open(queue: Arc<EventQueue>) {
    // Only the first of a process counts, as with its subscriber.
    let _ = WAY.set(queue);
}

/// Whether an event of this level is worth being written out. Those from "info" up always are: their filter stands where
/// they are told, so that a change of it has its place among them.
pub(super) fn is_wanted(level: Level) -> bool {
    match level {
        Level::DEBUG => FINE[0].load(Ordering::Relaxed),
        Level::TRACE => FINE[1].load(Ordering::Relaxed),
        _ => true,
    }
}

/// From now on only events of at least this level are wanted.
pub(super) fn want(level: LevelFilter) {
    FINE[0].store(level >= LevelFilter::DEBUG, Ordering::Relaxed);
    FINE[1].store(level >= LevelFilter::TRACE, Ordering::Relaxed);
}

/// Whether an event that a caller has caused is told; without a queue every one is.
pub(super) fn admits(cause: Cause, event: &'static str, level: Level) -> bool {
    WAY.get()
        .is_none_or(|queue| queue.admits(cause, event, level))
}

pub(super) fn report(record: Record) {
    match WAY.get() {
        Some(queue) if !TELLS.get() => queue.push(record),
        _ => record(),
    }
}

/// Changes how events are told, between those before and those after it.
pub(super) fn change(record: Record) {
    match WAY.get() {
        Some(queue) => queue.push_always(record),
        None => record(),
    }
}

/// Before the process ends: gives the events that wait a moment to be told.
pub fn flush() {
    if let Some(queue) = WAY.get() {
        queue.flush();
    }
}
