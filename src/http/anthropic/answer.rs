//! The JSON of answers, whole and in events. Texts are borrowed: an event is written for each token.

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::answer::heading::Heading;
use super::super::answer::receipt::Receipt;
use crate::engine::{FinishReason, Outcome};

/// An answer.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block<'a>>,
    #[serde(flatten)]
    end: End<'a>,
    usage: UsageCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    ganglion: Option<Receipt<'a>>,
}

/// A block of an answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Thinking {
        thinking: &'a str,
        signature: &'static str,
    },
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
}

/// The reason for the end of an answer.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct End<'a> {
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'a str>,
}

/// The counts of tokens. Those that the cache had are not among the others.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[allow(clippy::struct_field_names)] // Anthropic's names
pub(super) struct UsageCounts {
    input_tokens: u32,
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
    output_tokens: u32,
}

impl UsageCounts {
    /// Returns the counts before the end, when only the length of the prompt is known.
    pub(super) fn begun(prompt_tokens: u32) -> Self {
        Self {
            input_tokens: prompt_tokens,
            ..Self::default()
        }
    }
}

impl From<&Outcome> for UsageCounts {
    fn from(outcome: &Outcome) -> Self {
        let usage = &outcome.usage;
        Self {
            input_tokens: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: usage.cached_tokens,
            output_tokens: usage.completion_tokens,
        }
    }
}

impl<'a> From<&'a Outcome> for End<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let stop_reason = match outcome.reason {
            FinishReason::ToolCalls => "tool_use",
            // An answer that a deadline ended is partial, as one that its length ended.
            FinishReason::Length | FinishReason::Deadline => "max_tokens",
            FinishReason::Context => "model_context_window_exceeded",
            FinishReason::Stop if outcome.stop.is_some() => "stop_sequence",
            // The last two are errors.
            FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "end_turn",
        };
        Self {
            stop_reason: Some(stop_reason),
            stop_sequence: outcome.stop.as_deref(),
        }
    }
}

impl<'a> Message<'a> {
    /// Returns an answer without any content yet.
    pub(super) fn begun(heading: &'a Heading, usage: UsageCounts) -> Self {
        Self {
            id: &heading.id,
            kind: "message",
            role: "assistant",
            model: &heading.model,
            content: Vec::new(),
            end: End::default(),
            usage,
            ganglion: None,
        }
    }

    /// Returns a whole answer.
    pub(super) fn whole(
        heading: &'a Heading,
        content: Vec<Block<'a>>,
        outcome: &'a Outcome,
    ) -> Self {
        Self {
            content,
            end: outcome.into(),
            ganglion: Some(outcome.into()),
            ..Self::begun(heading, outcome.into())
        }
    }
}

/// An event of a stream.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    MessageStart {
        message: Message<'a>,
    },
    /// A sign of life.
    Ping,
    ContentBlockStart {
        index: usize,
        content_block: Block<'a>,
    },
    ContentBlockDelta {
        index: usize,
        delta: Delta<'a>,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: End<'a>,
        usage: UsageCounts,
        ganglion: Receipt<'a>,
    },
    MessageStop,
}

/// What an event adds to a block.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Delta<'a> {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
}

impl Event<'_> {
    /// Returns its name, which is also its type.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::Ping => "ping",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }
}
