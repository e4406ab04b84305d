//! Options of requests and sessions: from values as a caller gave them to the engine's options.
//!
//! The table names each option and its allowed values. An unknown, mistyped or out-of-range option is an error that names
//! it; no option is ignored.

mod allowed;
mod check;
mod constraint;
mod given;
mod read;
mod requests;
mod session;
mod table;
mod tools;

pub use allowed::{Allowed, MOST_OPTIONS, TEXTS};
pub use given::{GivenOption, GivenOptions, Value};
pub use requests::{Completion, completion, request};
pub use session::{NewSession, SessionDefaults, new_session};
pub use table::{OPTIONS, OptionKey, Scope};
