//! Text from a model's files as people may see it: whoever wrote a file must not steer a terminal, forge a line of the
//! journal, or fill it.

use std::fmt::{self, Write as _};

/// A name or a value.
pub(super) fn shown(text: &str) -> Shown<'_> {
    Shown { text, longest: 120 }
}

/// A sentence of ours with names and values in it, or one that a file wants told.
pub(super) fn sentence(text: &str) -> Shown<'_> {
    Shown { text, longest: 600 }
}

/// Displays what is printable, the rest escaped, and so many characters of it.
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
