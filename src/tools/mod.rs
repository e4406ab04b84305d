//! Tools that a model may call: what a caller offers, and how the model at hand writes a call.
//!
//! `Tools` is what a caller offers, as in OpenAI's API. A `Format` says how one family of models writes calls: it is a
//! file, and a model's chat template tells which it is. Of both `Writing` makes a grammar, which bounds an answer from
//! where its calls begin, and a `Listener` reads the calls as the tokens of the answer come. No tool is run here, and
//! nothing is known of conversations.

mod calls;
mod format;
mod listener;
mod offer;
mod writing;

pub use calls::{read, written};
pub use format::{Format, FormatError, Formats};
pub use listener::{Heard, Listener, Piece};
pub use offer::{Choice, Tools, ToolsError};
pub use writing::Writing;
