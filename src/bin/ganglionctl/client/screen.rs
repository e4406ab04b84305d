//! The output of an answer's text.

use ganglion::bus::Frame;

use crate::failure::Outcome;
use crate::output;

/// Standard output for the answer; its thoughts go to standard error.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    line_open: bool,
    thinks: bool,
}

impl Screen {
    /// Shows a frame; `quiet` leaves thoughts out.
    pub(crate) fn show_frame(&mut self, frame: &Frame, quiet: bool) -> Outcome {
        match frame {
            Frame::Reasoning { reasoning, .. } if !quiet => {
                self.thinks = true;
                output::print_thought(reasoning);
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
            output::note("");
        }
    }

    /// Ends an incomplete line of the answer.
    pub(crate) fn end_line(&mut self) -> Outcome {
        if std::mem::take(&mut self.line_open) {
            output::print("\n")?;
        }
        Ok(())
    }
}
