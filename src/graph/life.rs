//! The life cycle of the decode graph: its states, what leads from one to another, and what it tells of itself.
//!
//! It records and launches nothing: `decode` does, and reports here. Every transition is one method.

use std::fmt;
use std::time::Duration;

use super::{Mode, Renewal};
use crate::kv::Change;

/// Failures in a row after which no more recording is tried.
pub const MOST_FAILURES: u32 = 3;

/// Where the decode graph stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The next step records it.
    Invalid,
    Recording,
    /// The next step replays it.
    Valid,
    /// Steps run eagerly until a reset.
    Disabled,
}

impl State {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Recording => "recording",
            Self::Valid => "valid",
            Self::Disabled => "disabled",
        }
    }
}

/// Why it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has been recorded yet.
    Start,
    /// Earlier turns no longer are what it was recorded after.
    Kv(Change),
    /// An address or a launch geometry differs; what, if it was looked at.
    Moved(Option<String>),
    /// The driver refused a call.
    Refused,
    /// It was reset by an operator.
    Reset,
    /// The mode was changed; `none` keeps it disabled.
    Mode,
}

impl Reason {
    /// One word, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Kv(change) => change.name(),
            Self::Moved(_) => "moved",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Mode => "mode",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved(Some(what)) => write!(f, "moved: {what}"),
            reason => f.write_str(reason.name()),
        }
    }
}

/// What happened since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Recordings that were made executable.
    pub recordings: u64,
    /// Executable graphs, or segments of them, that took a new recording in place.
    pub updates: u64,
    /// Executable graphs, or segments of them, that were made anew.
    pub instantiations: u64,
    /// Steps that were replayed.
    pub launches: u64,
    /// Steps that ran kernel by kernel.
    pub eager_steps: u64,
    /// Refused calls.
    pub failures: u64,
}

impl Counters {
    fn and(self, more: Self) -> Self {
        Self {
            recordings: self.recordings + more.recordings,
            updates: self.updates + more.updates,
            instantiations: self.instantiations + more.instantiations,
            launches: self.launches + more.launches,
            eager_steps: self.eager_steps + more.eager_steps,
            failures: self.failures + more.failures,
        }
    }
}

/// What an operator should read of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Invalidated {
        reason: Reason,
        epoch: u64,
    },
    Recorded {
        /// Why it had become invalid.
        reason: Reason,
        nodes: usize,
        /// Whether every executable graph took it in place.
        updated: bool,
        time: Duration,
    },
    Failed {
        error: String,
        /// Failures in a row, with this one.
        failures: u32,
    },
    Disabled {
        error: String,
    },
}

/// The state and its history.
#[derive(Clone, Debug)]
pub struct LifeCycle {
    state: State,
    reason: Reason,
    mode: Mode,
    /// Of the KV cache, at its last change.
    epoch: u64,
    /// Kernels of one replay.
    nodes: usize,
    /// In a row.
    failures: u32,
    counters: Counters,
    last_error: Option<String>,
    last_recording: Duration,
    /// The first step of an executor runs eagerly, and its token counts.
    warm: bool,
    events: Vec<Event>,
}

impl LifeCycle {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let mut new = Self {
            state: State::Invalid,
            reason: Reason::Start,
            mode,
            epoch: 0,
            nodes: 0,
            failures: 0,
            counters: Counters::default(),
            last_error: None,
            last_recording: Duration::ZERO,
            warm: false,
            events: Vec::new(),
        };
        if mode == Mode::None {
            new.to(State::Disabled, Reason::Mode);
        }
        new
    }

    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// What the last recording took, without its launch.
    #[must_use]
    pub fn last_recording(&self) -> Duration {
        self.last_recording
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Goes on where the life cycle of another executor ends, whose cache is gone: the state is this one's, the
    /// history is of both.
    pub fn succeed(&mut self, before: &mut Self) {
        self.counters = before.counters.and(self.counters);
        self.epoch = before.epoch;
        self.last_error = self.last_error.take().or(before.last_error.take());
        if self.last_recording.is_zero() {
            self.last_recording = before.last_recording;
        }
        let later = std::mem::replace(&mut self.events, before.take_events());
        self.events.extend(later);
    }

    /// Whether the next step is to be recorded or replayed at all.
    pub(super) fn serves(&self) -> bool {
        self.warm && self.state != State::Disabled
    }

    /// The cache changed other than by one more token of the turn. Segments do not hold what that changes.
    pub fn change(&mut self, change: Change, epoch: u64) {
        self.epoch = epoch;
        if self.state == State::Valid && self.mode != Mode::Piecewise {
            self.to(State::Invalid, Reason::Kv(change));
        } else if self.state == State::Invalid {
            self.reason = Reason::Kv(change);
        }
        let reason = Reason::Kv(change);
        self.events.push(Event::Invalidated { reason, epoch });
    }

    /// An address or a launch geometry is not what it was recorded with.
    pub(super) fn moved(&mut self, what: Option<String>) {
        if self.state == State::Valid {
            let (reason, epoch) = (Reason::Moved(what), self.epoch);
            self.to(State::Invalid, reason.clone());
            self.events.push(Event::Invalidated { reason, epoch });
        }
    }

    pub(super) fn recording(&mut self) {
        self.state = State::Recording;
    }

    /// An executable graph, or a segment of it, does what was recorded.
    pub(super) fn renewed(&mut self, renewal: Renewal) {
        match renewal {
            Renewal::Updated => self.counters.updates += 1,
            Renewal::Instantiated => self.counters.instantiations += 1,
        }
    }

    /// All of it has been recorded; `updated` if every executable graph took it in place.
    pub(super) fn recorded(&mut self, nodes: usize, updated: bool, time: Duration) {
        self.state = State::Valid;
        self.nodes = nodes;
        self.last_recording = time;
        self.counters.recordings += 1;
        self.events.push(Event::Recorded {
            reason: self.reason.clone(),
            nodes,
            updated,
            time,
        });
    }

    /// The step failed by itself while it was being recorded.
    pub(super) fn abandoned(&mut self) {
        if self.state == State::Recording {
            self.state = State::Invalid;
        }
    }

    /// A step was replayed.
    pub(super) fn launched(&mut self) {
        self.counters.launches += 1;
    }

    /// A step ran kernel by kernel.
    pub(super) fn ran_eagerly(&mut self) {
        self.counters.eager_steps += 1;
        self.warm = true;
    }

    /// The token of a replay has arrived: only that shows that it works.
    pub fn arrived(&mut self) {
        self.failures = 0;
    }

    /// The driver refused a call of a recording or a replay.
    pub(super) fn refused(&mut self, error: String) {
        self.failures += 1;
        self.counters.failures += 1;
        self.last_error = Some(error.clone());
        if self.failures < MOST_FAILURES {
            self.to(State::Invalid, Reason::Refused);
            let failures = self.failures;
            self.events.push(Event::Failed { error, failures });
        } else {
            self.to(State::Disabled, Reason::Refused);
            self.events.push(Event::Disabled { error });
        }
    }

    /// The driver refused a call of a recorded prompt: the decode graph is as good as before, until that has
    /// happened too often.
    pub(super) fn prompt_refused(&mut self, error: String) {
        let (state, reason) = (self.state, self.reason.clone());
        self.refused(error);
        if self.state != State::Disabled {
            self.to(state, reason);
        }
    }

    /// Starts anew, whatever has failed before; the mode `none` stays disabled.
    pub(super) fn reset(&mut self, mode: Mode, reason: Reason) {
        self.mode = mode;
        self.failures = 0;
        self.nodes = 0;
        if mode == Mode::None {
            return self.to(State::Disabled, Reason::Mode);
        }
        let epoch = self.epoch;
        self.to(State::Invalid, reason.clone());
        self.events.push(Event::Invalidated { reason, epoch });
    }

    fn to(&mut self, state: State, reason: Reason) {
        self.state = state;
        self.reason = reason;
    }
}
