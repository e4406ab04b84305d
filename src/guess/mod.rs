//! Guesses of the next tokens of an answer. A step computes several guessed tokens at once, and those that the model
//! chooses are accepted.
//!
//! A proposer sees the tokens of one conversation. A wrong guess costs time and changes no answer.
//! Not here: the steps that check guesses and the passes of the model's head (`runner`), the passes of a draft model, and when an
//! answer is guessed (`engine`).

mod custom;
mod lookup;
mod mode;
mod pace;
mod past;
mod places;
mod proposer;
mod source;
mod tried;
mod worth;

pub use self::custom::Custom;
pub use self::lookup::Lookup;
pub use self::mode::Mode;
pub use self::pace::Pace;
pub use self::past::Past;
pub use self::proposer::Proposer;
pub use self::source::{Guess, Source};
pub use self::tried::Tried;
pub use self::worth::{Acceptance, StepCosts};

/// The most tokens that can be guessed in one step: the rows of a step but the first.
pub const MOST_GUESSES: usize = 7;
