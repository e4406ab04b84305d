//! The part of a model that guesses tokens: its own head, or an assistant.

use crate::model::shape::Shape;
use crate::model::weights::{Assistant as Weights, GuessHead};
use crate::tape::WeightId;

/// The part of a model that guesses tokens.
#[derive(Clone, Debug)]
pub enum Guesser {
    /// A layer of the model's files, with keys of its own.
    Head(Box<GuessHead<WeightId>>),
    /// A small model of other files that reads the model's keys.
    Assistant(Box<Assistant>),
}

/// An assistant that fits its model.
#[derive(Clone, Debug)]
pub struct Assistant {
    /// Its layers read the K and V of layers of the model, and its tables of angles are the model's.
    pub shape: Shape,
    pub weights: Weights<WeightId>,
}

impl Guesser {
    /// Returns the model's own head.
    #[must_use]
    pub fn head(&self) -> Option<&GuessHead<WeightId>> {
        match self {
            Self::Head(head) => Some(head),
            Self::Assistant(_) => None,
        }
    }

    /// Returns the assistant.
    #[must_use]
    pub fn assistant(&self) -> Option<&Assistant> {
        match self {
            Self::Head(_) => None,
            Self::Assistant(assistant) => Some(assistant),
        }
    }
}
