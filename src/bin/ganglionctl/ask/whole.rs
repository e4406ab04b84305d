//! An answer as one JSON object, once it is whole.

use ganglion::bus::Frame;
use ganglion::telemetry::{FinishReason, Usage};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct Whole {
    text: String,
}

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
struct Object<'a> {
    text: &'a str,
    finish_reason: FinishReason,
    /// With which the same question has the same answer.
    seed: u64,
    usage: Usage,
    /// A D-Bus error name.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl Whole {
    /// Keeps a piece; prints the object after the last.
    ///
    /// # Errors
    /// As `output::print`.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<(), Failure> {
        match frame {
            Frame::Text { text, .. } => {
                self.text.push_str(text);
                Ok(())
            }
            Frame::Done {
                finish_reason,
                usage,
                error,
                message,
                ..
            } => output::print_json(&Object {
                text: &self.text,
                finish_reason: *finish_reason,
                seed: usage.seed,
                usage: *usage,
                error: error.as_deref(),
                message: message.as_deref(),
            }),
        }
    }
}
