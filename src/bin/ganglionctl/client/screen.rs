//! Where an answer's text goes.

use crate::failure::Outcome;
use crate::output;

/// Standard output, on which an answer grows.
#[derive(Debug)]
pub(crate) struct Screen {
    line_open: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { line_open: false }
    }

    /// Shows `text` at once.
    pub(crate) fn show(&mut self, text: &str) -> Outcome {
        if let Some(last) = text.chars().next_back() {
            self.line_open = last != '\n';
        }
        output::print(text)
    }

    /// Ends the line that an answer left open.
    pub(crate) fn end_line(&mut self) -> Outcome {
        if std::mem::take(&mut self.line_open) {
            output::print("\n")?;
        }
        Ok(())
    }
}
