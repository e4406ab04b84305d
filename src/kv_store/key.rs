//! What pages depend on: with anything else than what they were made with they would mean something else.

use std::fmt::Write as _;

/// Names and values, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The same key with another line.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        // A value has no line break of its own, so that no two keys are written alike.
        let value = value.to_string().replace('\n', " ");
        let _ = writeln!(self.0, "{name}: {value}");
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The name of the first line that differs from what a file has.
    pub(super) fn difference(&self, found: &[u8]) -> Option<String> {
        let found = String::from_utf8_lossy(found);
        let mut lines = found.lines();
        let differs = self.0.lines().find(|line| lines.next() != Some(line));
        let differs = differs.or_else(|| lines.next());
        differs.map(|line| line.split(':').next().unwrap_or_default().to_owned())
    }
}
