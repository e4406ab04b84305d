//! The tables of the fields of all endpoints, for the manual.

use super::request::table::Table;
use super::{anthropic, chat, responses};

/// One for each endpoint.
pub static TABLES: [&Table; 3] = [
    &chat::fields::TABLE,
    &responses::fields::TABLE,
    &anthropic::fields::TABLE,
];
