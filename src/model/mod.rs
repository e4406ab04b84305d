//! A model: its files (`checkpoint`), architecture and shape, weights, language (`tokenizer`, `chat`), the tapes of its
//! forward pass, and its vision tower (`tower`).
//! Not here: computation, which executors do.

pub mod architecture;
mod assistant;
pub mod chat;
pub mod checkpoint;
pub mod error;
pub mod forward;
pub mod language;
pub mod language_error;
pub mod message;
mod names;
mod rope;
pub mod shape;
mod shown;
pub mod tokenizer;
pub mod tower;
pub mod weights;

pub use architecture::Architecture;
pub use assistant::AssistantMismatch;
pub use chat::Manner;
pub use checkpoint::{AssistantCheckpoint, Checkpoint, LanguageSource, TowerCheckpoint};
pub use error::{Defect, ModelError};
pub use language::Language;
pub use language_error::LanguageError;
pub use message::{Call, Message, MessageImage, Role};
pub use shape::Shape;
pub use tokenizer::Decoder;
pub use weights::{GuessHead, Layer, Linear, Tensor, Weights};
