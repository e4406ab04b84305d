//! An answer as one JSON object, once it is whole. Its keys are stable: scripts read them.

use ganglion::bus::Frame;

use crate::failure::{Exit, OrFail as _, Outcome};
use crate::output;

/// Keeps a piece of the answer in `said`; prints the object after the last: that frame, with all that was said and with the
/// seed by which the same question has the same answer.
///
/// # Errors
/// As `output::print`.
pub(super) fn take(said: &mut String, frame: &Frame) -> Outcome {
    match frame {
        Frame::Text { text, .. } => {
            said.push_str(text);
            Ok(())
        }
        Frame::Done { usage, .. } => {
            let mut whole = serde_json::to_value(frame).or_fail(Exit::Failed, "JSON")?;
            if let Some(whole) = whole.as_object_mut() {
                whole.retain(|key, _| key != "seq" && key != "done");
            }
            whole["text"] = said.as_str().into();
            whole["seed"] = usage.seed.into();
            output::print_json(&whole)
        }
    }
}
