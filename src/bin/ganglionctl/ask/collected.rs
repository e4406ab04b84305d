//! Collects a whole answer from its frames.

use ganglion::bus::Frame;
use ganglion::engine::Likelihood;
use serde_json::{Value, json};

use crate::failure::{Exit, OrFail as _, Outcome};

#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The tool calls, as `Request.Result` has them.
    pub(super) calls: Option<Value>,
    /// JSON pointers to keywords of schemas that were not enforced.
    pub(super) unchecked: Vec<String>,
    pub(super) logprobs: Vec<Likelihood>,
}

impl Collected {
    pub(super) fn add(&mut self, frame: &Frame) {
        match frame {
            Frame::Text { text, logprobs, .. } => {
                self.text.push_str(text);
                self.logprobs.extend_from_slice(logprobs);
            }
            Frame::Reasoning { reasoning, .. } => self.reasoning.push_str(reasoning),
            Frame::ToolCall { .. } => {}
            Frame::Done {
                tool_calls,
                unchecked,
                ..
            } => {
                self.calls.clone_from(tool_calls);
                self.unchecked.clone_from(unchecked);
            }
        }
    }

    /// Returns one JSON object: the last frame, completed by the whole answer and by the seed that reproduces it. Its
    /// keys are stable: scripts read them.
    pub(super) fn whole(&self, last: &Frame) -> Outcome<Value> {
        let mut whole = serde_json::to_value(last).or_fail(Exit::Failed, "JSON")?;
        if let Some(whole) = whole.as_object_mut() {
            whole.retain(|key, _| key != "seq" && key != "done");
        }
        whole["text"] = self.text.as_str().into();
        if let Frame::Done { usage, .. } = last {
            whole["seed"] = usage.seed.into();
        }
        if !self.reasoning.is_empty() {
            whole["reasoning"] = self.reasoning.as_str().into();
        }
        if !self.logprobs.is_empty() {
            whole["logprobs"] = json!(self.logprobs);
        }
        Ok(whole)
    }
}
