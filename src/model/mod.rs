//! What a model is: its shape, its weights, its language, and the tape of one forward pass.
//!
//! Nothing here computes: `forward` writes tapes, and an executor in `tape` runs them.

pub mod architecture;
pub mod chat;
pub mod checkpoint;
pub mod error;
pub mod forward;
pub mod language;
mod language_error;
pub mod message;
mod rope;
pub mod shape;
mod shown;
pub mod tokenizer;
pub mod weights;

pub use architecture::Architecture;
pub use chat::Manner;
pub use checkpoint::{Checkpoint, LanguageSource};
pub use error::{Defect, ModelError};
pub use language::Language;
pub use language_error::LanguageError;
pub use message::{Call, Message, Role};
pub use shape::Shape;
pub use tokenizer::Decoder;
pub use weights::{Layer, Linear, Tensor, Weights};
