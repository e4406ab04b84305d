//! What all parts of an answer repeat.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::error::Error;
use crate::front;

/// The name of an answer, and where it comes from.
#[derive(Clone, Debug)]
pub(in crate::http) struct Heading {
    /// A prefix, and 128 random bits in hexadecimal digits.
    pub(in crate::http) id: String,
    /// When the request was accepted, in seconds since 1970.
    pub(in crate::http) created: u64,
    /// The name of the model.
    pub(in crate::http) model: String,
}

impl Heading {
    /// Returns that of a new answer.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(prefix: &str, model: &str) -> Result<Self, Error> {
        let random =
            || getrandom::u64().map_err(|error| front::Error::NoRandomness(error.to_string()));
        Ok(Self {
            id: format!("{prefix}{:016x}{:016x}", random()?, random()?),
            created: seconds(),
            model: model.to_owned(),
        })
    }
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
