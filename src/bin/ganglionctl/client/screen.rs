//! Where an answer's text goes.

use std::io::{self, IsTerminal as _};

use crate::failure::Failure;
use crate::output;

/// Standard output, on which an answer grows.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    line_open: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            line_open: false,
        }
    }

    /// Shows `text` at once.
    ///
    /// # Errors
    /// As `output::print`.
    pub(crate) fn show(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(last) = text.chars().next_back() {
            self.line_open = last != '\n';
        }
        if self.terminal {
            output::print(&harmless(text))
        } else {
            output::print(text)
        }
    }

    /// Ends the line that an answer left open.
    ///
    /// # Errors
    /// As `output::print`.
    pub(crate) fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.line_open) {
            output::print("\n")?;
        }
        Ok(())
    }
}

/// A model can be talked into writing escape sequences, its file can be named by one, and a terminal obeys them: control characters
/// other than line ends and tabs become U+FFFD.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(
            harmless("a\x1b[2Jb\u{9b}c\n\té"),
            "a\u{fffd}[2Jb\u{fffd}c\n\té"
        );
    }
}
