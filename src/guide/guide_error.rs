//! The errors of a guided answer.

use serde::{Deserialize, Serialize};

/// The reason why an answer cannot continue under its guide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum GuideError {
    #[error(
        "the grammar became too complex in the middle of the answer ({0}); make it smaller, or bound what repeats in it"
    )]
    TooComplex(String),
    #[error("no token of this model can continue the answer under this grammar; simplify it")]
    NothingFollows,
    #[error("the process of the answer's grammar was ended: {0}; make the grammar simpler")]
    Stopped(String),
}
