//! The results of a run: the state of a slot, times, and errors.

use std::time::Duration;

use super::images::ImageError;
use crate::fault::Call;

/// The next step's token and position. A step advances both on the device, so that a recorded step needs no new
/// arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepState {
    pub token: u32,
    pub position: usize,
}

/// The token of a row that is not the first of its slot in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It is the slot's next token in any case.
    Forced(u32),
    /// It is the slot's next token if the row before it chooses it. Otherwise this row and those after it are undone.
    Guessed(u32),
}

impl Given {
    #[must_use]
    pub const fn token(self) -> u32 {
        match self {
            Self::Forced(token) | Self::Guessed(token) => token,
        }
    }

    #[must_use]
    pub const fn is_guess(self) -> bool {
        matches!(self, Self::Guessed(_))
    }
}

/// How a step spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// How long the host waited for the device.
    pub waited: Duration,
    /// How long the device was idle before the step, as far as the host knows.
    pub idle: Duration,
}

impl StepTimes {
    /// How long to spin for the next token before the thread sleeps. Steps longer than `most` are not worth a busy
    /// core.
    #[must_use]
    pub fn spin(&self, most: Duration) -> Duration {
        if self.waited > most {
            Duration::ZERO
        } else {
            most
        }
    }
}

/// The operations of a step that take timestamps at their begin and end.
///
/// A timestamp takes time after its operation, so gaps between timed operations are longer than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The first one and the last one.
    Step,
    /// All of them.
    Operations,
}

/// The begin and end of an operation, in nanoseconds since an arbitrary time.
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
    #[error(transparent)]
    Images(#[from] ImageError),
    #[error(transparent)]
    State(#[from] StateError),
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

/// Why a recurrent state cannot serve its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error(
        "rows from position {position} do not continue a recurrent state at position {state}: \
         load a checkpoint first"
    )]
    Position { position: usize, state: usize },
    #[error("slot {slot} has no recurrent state: give it one, and load a checkpoint")]
    Missing { slot: usize },
    #[error("all {owned} recurrent states that slots may have belong to others: end a turn first")]
    Owned { owned: usize },
    #[error("all {spares} spare recurrent states are in use: end or discard a prompt first")]
    Spares { spares: usize },
    #[error("a checkpoint of a recurrent state has {given} bytes, not {needed}")]
    Checkpoint { given: usize, needed: usize },
}

impl ExecuteError {
    /// The driver's name of the error, if it is a driver error.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        #[cfg(feature = "cuda")]
        if let Self::Device(error) = self {
            return error.driver_error();
        }
        None
    }
}
