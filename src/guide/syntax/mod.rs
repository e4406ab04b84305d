//! The syntax of arguments that are not one JSON object: each argument has a name and a value of its own. The rules of
//! a grammar for the arguments of a schema (`rules`), and the spelling of known values (`spelling`).
//! Not here: reading arguments from an answer.

mod alternatives;
mod form;
mod formats;
mod json;
mod merge;
mod objects;
mod rules;
mod spelling;
mod texts;
mod types;
mod values;

pub use form::{Nested, Syntax, Text, spelled};
pub use rules::literal;
pub(super) use rules::{Rules, Written};
pub use types::{ArgumentTypes, Types};
