//! Text from a model's files in messages. The author of a file must not control a terminal, forge a line of the
//! journal, or fill it.

use std::fmt::{self, Write as _};

/// Formats a name or a value.
pub(super) fn shown(text: &str) -> Shown<'_> {
    Shown { text, longest: 120 }
}

/// Formats a sentence of this program with names and values in it, or one from a file.
pub(super) fn sentence(text: &str) -> Shown<'_> {
    Shown { text, longest: 600 }
}

/// Displays printable characters, the rest escaped, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    text: &'a str,
    longest: usize,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.text.chars();
        for c in chars.by_ref().take(self.longest) {
            match c {
                '"' | '\'' | '\\' => f.write_char(c)?,
                _ => c.escape_debug().try_for_each(|c| f.write_char(c))?,
            }
        }
        match chars.next() {
            Some(_) => f.write_str("..."),
            None => Ok(()),
        }
    }
}
