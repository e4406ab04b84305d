//! What all endpoints share of an answer: its beginning, its stream or its one object, its receipt.
//!
//! The JSON of an endpoint's answers is in the folder of that endpoint.

pub(super) mod begin;
pub(super) mod heading;
pub(super) mod likelihood;
pub(super) mod receipt;
pub(super) mod sse;
pub(super) mod stream;
pub(super) mod whole;
