//! The states of the decode graph, the reasons for them, counters, and events.

use std::fmt;
use std::time::Duration;

use crate::kv::Change;

/// The state of the decode graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The next step compares all addresses with the recording, if there is one. It replays the recording if they are
    /// equal, and records otherwise.
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

/// Why the graph became invalid last, even if it is valid again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidationReason {
    /// Nothing has been recorded yet.
    Start,
    /// The cache changed in another way than by one more token of the turn.
    Kv(Change),
    /// An address or a launch geometry differs. The text says which one, if it is known.
    Moved(Option<String>),
    /// The driver refused a call.
    Refused,
    /// It was reset by an operator.
    Reset,
    /// The mode was changed; `none` keeps it disabled.
    Mode,
    /// A step has a number of rows for which nothing was recorded yet.
    Rows,
}

impl InvalidationReason {
    /// One word, as programs read it.
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

/// How an executable graph took a new recording of its part of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The driver updated it in place.
    Updated,
    /// The driver created a new one.
    Instantiated,
}

/// A call that the driver has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The message for people.
    pub text: String,
    /// The driver's name of the error, if there is one.
    pub driver_error: Option<String>,
}

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Recordings that were made executable.
    pub recordings: u64,
    /// Changes of the cache after which no address had changed, so that the recording stayed valid.
    pub verified: u64,
    /// Executable graphs that were updated in place.
    pub updates: u64,
    /// Executable graphs that were created.
    pub instantiations: u64,
    /// Steps that were replayed.
    pub launches: u64,
    /// Steps that ran operation by operation.
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

/// A transition of the life cycle, or a detail of one, for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cache changed; `state` is the graph's state afterwards.
    Changed {
        change: Change,
        epoch: u64,
        state: State,
    },
    /// The graph was valid or disabled, and is invalid.
    Invalidated {
        reason: InvalidationReason,
        epoch: u64,
    },
    Recorded {
        /// Why the graph had become invalid.
        reason: InvalidationReason,
        epoch: u64,
        nodes: usize,
        /// Whether every executable graph was updated in place.
        updated: bool,
        time: Duration,
    },
    /// The graph is valid again after a change of the cache, because no address or geometry has changed.
    Verified {
        reason: InvalidationReason,
        epoch: u64,
        nodes: usize,
    },
    /// One executable graph has taken its recording: a detail of `Recorded`.
    Renewed {
        segment: usize,
        renewal: Renewal,
        nodes: usize,
        time: Duration,
    },
    Failed {
        refused: Refused,
        epoch: u64,
        /// Consecutive failures, including this one.
        failures: u32,
        /// The state of the decode graph. The refused call may have belonged to a prompt.
        state: State,
    },
    Disabled {
        refused: Refused,
        epoch: u64,
    },
    /// The mode `none` was set.
    Off {
        epoch: u64,
    },
}
