//! The tables of the fields of all endpoints, for the manual.

use super::request::table::Table;
use super::{anthropic, chat, completions, responses};

/// One for each endpoint.
pub static TABLES: [&Table; 4] = [
    &chat::fields::TABLE,
    &completions::fields::TABLE,
    &responses::fields::TABLE,
    &anthropic::fields::TABLE,
];
