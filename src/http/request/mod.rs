//! What all endpoints share of a request: the reading of its fields against a table, its options, its images.
//!
//! The fields of an endpoint, and what they mean, are in the folder of that endpoint.

pub(super) mod body;
pub(super) mod extensions;
pub(super) mod given;
pub(super) mod images;
pub(super) mod options;
pub(super) mod question;
pub(super) mod reader;
pub(super) mod table;
pub(super) mod tools;
mod values;
