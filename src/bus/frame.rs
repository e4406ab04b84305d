//! The lines of a request's pipe: one JSON object each. Daemon and clients share this type.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::Likelihood;
use crate::telemetry::{FinishReason, Usage};
use crate::tools::Piece;

/// One line of a stream. A stream that ends without `Done` means that the daemon ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // a frame is written or read at once, and not kept
pub enum Frame {
    /// The last line.
    Done {
        seq: u64,
        /// Always true.
        done: bool,
        finish_reason: FinishReason,
        usage: Usage,
        /// Whether a constrained answer, or one with tools, ends before it is complete.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
        /// JSON pointers to keywords of the request's schemas that were not enforced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unchecked: Vec<String>,
        /// The calls of the model, as in `Request.Result`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<Value>,
        /// D-Bus name of the error, if `finish_reason` is `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The reason and the remedy, if `finish_reason` is `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A part of the model's thoughts before its answer.
    Reasoning {
        seq: u64,
        /// Empty, for readers that know only texts.
        text: String,
        reasoning: String,
    },
    /// A part of a call of a tool: first its id and name, then parts of the text of its arguments.
    ToolCall {
        seq: u64,
        /// Empty, for readers that know only texts.
        text: String,
        tool_call: Piece,
    },
    /// Whole characters of the answer, which is the concatenation in order of `seq`.
    Text {
        seq: u64,
        text: String,
        /// With the option logprobs: the log probabilities of tokens. Those of a token precede the text that it completes,
        /// which may be in a later frame.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logprobs: Vec<Likelihood>,
    },
}

impl Frame {
    /// Returns the number of the frame in its stream, from 0.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        let (Self::Done { seq, .. }
        | Self::Reasoning { seq, .. }
        | Self::ToolCall { seq, .. }
        | Self::Text { seq, .. }) = self;
        *seq
    }

    /// Parses one line of a stream, with or without its newline.
    pub fn from_line(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }

    /// Appends the frame to `out` as one line.
    pub(super) fn write_line(&self, out: &mut Vec<u8>) {
        // Serializing to memory fails only for maps without text keys.
        if serde_json::to_writer(&mut *out, self).is_ok() {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_the_interface_promises() {
        let mut out = Vec::new();
        Frame::Text {
            seq: 0,
            text: "Hel\n\"é".into(),
            logprobs: Vec::new(),
        }
        .write_line(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "{\"seq\":0,\"text\":\"Hel\\n\\\"é\"}\n"
        );

        let done = Frame::Done {
            seq: 1,
            done: true,
            finish_reason: FinishReason::Length,
            usage: Usage::default(),
            incomplete: false,
            unchecked: Vec::new(),
            tool_calls: None,
            error: None,
            message: None,
        };
        out.clear();
        done.write_line(&mut out);
        let line = String::from_utf8_lossy(&out);
        assert!(line.starts_with(
            "{\"seq\":1,\"done\":true,\"finish_reason\":\"length\",\"usage\":{\"prompt_tokens\":0,"
        ));
        assert_eq!(Frame::from_line(&line).ok(), Some(done));
    }
}
