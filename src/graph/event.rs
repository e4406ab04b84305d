//! What is told of the decode graph: its states, the reasons for them, what is counted, and what happens to it.

use std::fmt;
use std::time::Duration;

use crate::kv::Change;

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

/// Why it was last invalid, also where it is valid again as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidationReason {
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
    /// What is valid has been joined by steps of another number of rows.
    Rows,
}

impl InvalidationReason {
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
            Self::Rows => "rows",
        }
    }
}

impl fmt::Display for InvalidationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved(Some(what)) => write!(f, "moved: {what}"),
            reason => f.write_str(reason.name()),
        }
    }
}

/// What became of a living executable graph when its part of the step was recorded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The same executable graph does something else now.
    Updated,
    /// The driver wanted a new one.
    Instantiated,
}

/// A call that the driver has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// People are shown this.
    pub text: String,
    /// The driver's own name of the error, if it has one.
    pub driver_error: Option<String>,
}

/// What happened since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Recordings that were made executable.
    pub recordings: u64,
    /// Changes of the cache after which every address was found where it was, so that nothing was recorded.
    pub verified: u64,
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
    pub(super) fn and(self, more: Self) -> Self {
        Self {
            recordings: self.recordings + more.recordings,
            verified: self.verified + more.verified,
            updates: self.updates + more.updates,
            instantiations: self.instantiations + more.instantiations,
            launches: self.launches + more.launches,
            eager_steps: self.eager_steps + more.eager_steps,
            failures: self.failures + more.failures,
        }
    }
}

/// What happened, for who looks after it: transitions with what they have led to, and what they are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cache, and what the graph is now.
    Changed {
        change: Change,
        epoch: u64,
        state: State,
    },
    /// It was valid or disabled before.
    Invalidated {
        reason: InvalidationReason,
        epoch: u64,
    },
    Recorded {
        /// Why it had become invalid.
        reason: InvalidationReason,
        epoch: u64,
        nodes: usize,
        /// Whether every executable graph took it in place.
        updated: bool,
        time: Duration,
    },
    /// It is valid again after a change of the cache: nothing that it was recorded against has changed.
    Verified {
        reason: InvalidationReason,
        epoch: u64,
        nodes: usize,
    },
    /// One executable graph, or a segment of it, does what was recorded. No transition, but what one is made of.
    Renewed {
        segment: usize,
        renewal: Renewal,
        nodes: usize,
        time: Duration,
    },
    Failed {
        refused: Refused,
        epoch: u64,
        /// Failures in a row, with this one.
        failures: u32,
        /// It is the decode graph's: what was refused may have been a prompt's.
        state: State,
    },
    Disabled {
        refused: Refused,
        epoch: u64,
    },
    /// The mode `none` has taken its place.
    Off {
        epoch: u64,
    },
}
