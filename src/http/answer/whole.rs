//! An answer in one JSON object.

use super::super::error::Error;
use super::heading::Heading;
use crate::engine::{Event, Outcome};

/// Collects an answer, and writes it as JSON.
pub(in crate::http) trait Whole {
    /// Adds an event; returns the outcome, if it is the last.
    fn collect(&mut self, event: Event) -> Option<Outcome>;

    /// Returns the answer as JSON.
    ///
    /// # Errors
    /// The error that ended the request.
    fn json(&self, heading: &Heading, outcome: &Outcome) -> Result<Vec<u8>, Error>;
}
