//! The state that a step reads and advances, and how a run can fail.

use std::time::Duration;

use crate::fault::Call;

/// Where generation stands: the next step's token and its position. A step advances both itself, so
/// that a recorded step needs no new arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepState {
    pub token: u32,
    pub position: usize,
}

/// How a step spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// The host had nothing to do but to wait.
    pub waited: Duration,
    /// The device had nothing to do before it began, as far as the host can tell.
    pub idle: Duration,
}

impl StepTimes {
    /// How long to spin for the next token before the thread sleeps: not at all while tokens take longer than that, for
    /// then it would only burn a core.
    #[must_use]
    pub fn spin(&self, most: Duration) -> Duration {
        if self.waited > most {
            Duration::ZERO
        } else {
            most
        }
    }
}

/// Which operations of a step take timestamps, of their begin and their end. That takes time of its own, after the
/// operation's end: what lies between operations is only as long as usual where none of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The first one and the last one.
    Step,
    /// Each of them.
    Operations,
}

/// When an operation began and when it ended, in nanoseconds since some moment.
pub type Span = (u64, u64);

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    #[error(
        "the model's output is not a finite number at position {position}: \
         its file is damaged, or its values exceed the type of the activations"
    )]
    NonFinite { position: usize },
    #[error("{call:?} was refused on purpose")]
    Refused { call: Call, lost: bool },
    #[error("a recorded step was replayed after its memory had moved")]
    Stale,
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token { token: u32, vocabulary: usize },
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] crate::device::Error),
    #[error("{rows} rows from position {position} exceed the context of {context}")]
    Context {
        rows: usize,
        position: usize,
        context: usize,
    },
}

impl ExecuteError {
    /// The driver's own name of the error, if it is one of the driver's.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        #[cfg(feature = "cuda")]
        if let Self::Device(error) = self {
            return error.driver_error();
        }
        None
    }
}
