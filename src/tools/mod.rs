//! Tools that a model may call: the caller's offer (`Tools`), the syntax of calls of a family of models (`Format`), the
//! grammar made of both (`Writing`), and the reader of calls (`Listener`).
//! Not here: running tools, and conversations.

mod arguments;
mod arguments_file;
mod calls;
mod delimiters;
mod format;
mod format_defect;
mod listener;
mod offer;
mod symbols;
mod values;
mod writing;

pub use calls::{read, written};
pub use format::{Format, FormatError, Formats};
pub use format_defect::FormatDefect;
pub use listener::{AnswerPart, Listener, Piece};
pub use offer::{Choice, Tools, ToolsError};
pub use writing::Writing;
