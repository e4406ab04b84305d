//! The name of a session, which is also its file name. It can never lead to another folder.

use std::fmt::{self, Display};
use std::sync::Arc;

/// Bytes of the longest name.
const LONGEST: usize = 64;

/// A session's name: 1 to 64 letters, digits, `-`, `_` and `.`, which does not begin with a dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// The text is not a valid session name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a session's name is 1 to {LONGEST} letters (a to z, A to Z), digits, \"-\", \"_\" and \".\", and does not begin with a dot"
)]
pub struct NameError;

impl Name {
    pub fn new(text: &str) -> Result<Self, NameError> {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        let is_name = (1..=LONGEST).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(allowed);
        is_name.then(|| Self(text.into())).ok_or(NameError)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
