//! The key: everything that the values of pages depend on.

use std::fmt::Write as _;

/// Names and values, one per line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Returns the key with a further line.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        // Line breaks in a value are replaced, so that different keys have different texts.
        let value = value.to_string().replace('\n', " ");
        let _ = writeln!(self.0, "{name}: {value}");
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The name of the first line that differs from the key in a file.
    pub(super) fn difference(&self, found: &[u8]) -> Option<String> {
        let found = String::from_utf8_lossy(found);
        let mut lines = found.lines();
        let differs = self.0.lines().find(|line| lines.next() != Some(line));
        let differs = differs.or_else(|| lines.next());
        differs.map(|line| line.split(':').next().unwrap_or_default().to_owned())
    }
}
