//! Where an answer's text goes.

use ganglion::bus::Frame;

use crate::failure::Outcome;
use crate::output;

/// Standard output, on which an answer grows; what was thought before it goes to standard error.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    line_open: bool,
    thinks: bool,
}

impl Screen {
    /// Shows what a frame says; `quiet` leaves thoughts out.
    pub(crate) fn show_frame(&mut self, frame: &Frame, quiet: bool) -> Outcome {
        match frame {
            Frame::Reasoning { reasoning, .. } if !quiet => {
                self.thinks = true;
                output::think(reasoning);
            }
            Frame::Text { text, .. } if !text.is_empty() => {
                self.end_thoughts();
                self.line_open = !text.ends_with('\n');
                output::print(text)?;
            }
            Frame::Done { .. } => self.end_thoughts(),
            Frame::Reasoning { .. } | Frame::Text { .. } | Frame::ToolCall { .. } => {}
        }
        Ok(())
    }

    fn end_thoughts(&mut self) {
        if std::mem::take(&mut self.thinks) {
            output::tell("");
        }
    }

    /// Ends the line that an answer left open.
    pub(crate) fn end_line(&mut self) -> Outcome {
        if std::mem::take(&mut self.line_open) {
            output::print("\n")?;
        }
        Ok(())
    }
}
