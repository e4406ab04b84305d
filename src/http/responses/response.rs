//! The JSON of a whole response, which a stream has at its beginning and at its end.

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::answer::heading::Heading;
use super::super::answer::receipt::Receipt;
use super::super::error::Error;
use super::items::{Item, ItemJson};
use super::settings::Settings;
use crate::engine::{FinishReason, Outcome};

/// A response.
#[derive(Debug, Serialize)]
pub(super) struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    background: bool,
    error: Option<Failure<'a>>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<&'a RawValue>,
    max_output_tokens: Option<&'a RawValue>,
    max_tool_calls: (),
    metadata: Empty,
    model: &'a str,
    output: Vec<ItemJson<'a>>,
    parallel_tool_calls: Repeated<'a, bool>,
    previous_response_id: Option<&'a str>,
    reasoning: Repeated<'a, Reasoning>,
    store: bool,
    temperature: Option<&'a RawValue>,
    text: Repeated<'a, Text>,
    tool_choice: Repeated<'a, &'static str>,
    tools: Repeated<'a, [(); 0]>,
    top_logprobs: Option<&'a RawValue>,
    top_p: Option<&'a RawValue>,
    truncation: &'static str,
    usage: Option<UsageCounts>,
    user: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    ganglion: Option<Receipt<'a>>,
}

/// A setting of the request, or its default.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Repeated<'a, T> {
    Given(&'a RawValue),
    Default(T),
}

#[derive(Debug, Serialize)]
struct Empty {}

#[derive(Debug, Serialize)]
struct Reasoning {
    effort: (),
    summary: (),
}

#[derive(Debug, Serialize)]
struct Text {
    format: Format,
}

#[derive(Debug, Serialize)]
struct Format {
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Why a response has failed.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    code: &'static str,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct Incomplete {
    reason: &'static str,
}

/// The counts of tokens.
#[derive(Debug, Serialize)]
struct UsageCounts {
    input_tokens: u32,
    input_tokens_details: InputTokens,
    output_tokens: u32,
    output_tokens_details: OutputTokens,
    total_tokens: u32,
}

#[derive(Debug, Serialize)]
struct InputTokens {
    cached_tokens: u32,
    cache_write_tokens: u32,
}

#[derive(Debug, Serialize)]
struct OutputTokens {
    /// The engine does not count thoughts apart.
    reasoning_tokens: u32,
}

impl From<&Outcome> for UsageCounts {
    fn from(outcome: &Outcome) -> Self {
        let usage = &outcome.usage;
        Self {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: InputTokens {
                cached_tokens: usage.cached_tokens,
                cache_write_tokens: 0,
            },
            output_tokens: usage.completion_tokens,
            output_tokens_details: OutputTokens {
                reasoning_tokens: 0,
            },
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
        }
    }
}

/// Whether the reason for the end of an answer leaves it partial.
pub(super) const fn is_partial(reason: FinishReason) -> bool {
    matches!(
        reason,
        FinishReason::Length | FinishReason::Context | FinishReason::Deadline
    )
}

impl<'a> Response<'a> {
    /// Returns the response whose answer is not complete yet.
    pub(super) fn in_progress(heading: &'a Heading, settings: &'a Settings) -> Self {
        Self {
            id: &heading.id,
            object: "response",
            created_at: heading.created,
            status: "in_progress",
            background: false,
            error: None,
            incomplete_details: None,
            instructions: settings.instructions.as_deref(),
            max_output_tokens: settings.max_output_tokens.as_deref(),
            max_tool_calls: (),
            metadata: Empty {},
            model: &heading.model,
            output: Vec::new(),
            parallel_tool_calls: repeated(settings.parallel_tool_calls.as_deref(), true),
            previous_response_id: settings.previous_response_id.as_deref(),
            reasoning: repeated(
                settings.reasoning.as_deref(),
                Reasoning {
                    effort: (),
                    summary: (),
                },
            ),
            store: settings.store,
            temperature: settings.temperature.as_deref(),
            text: repeated(
                settings.text.as_deref(),
                Text {
                    format: Format { kind: "text" },
                },
            ),
            tool_choice: repeated(settings.tool_choice.as_deref(), "auto"),
            tools: repeated(settings.tools.as_deref(), []),
            top_logprobs: settings.top_logprobs.as_deref(),
            top_p: settings.top_p.as_deref(),
            truncation: "disabled",
            usage: None,
            user: (),
            ganglion: None,
        }
    }

    /// Returns the response with its items and its end.
    pub(super) fn ended(self, items: &'a [Item], outcome: &'a Outcome) -> Self {
        // An answer that the context or a deadline ended is partial, as one that its length ended.
        let partial = is_partial(outcome.reason);
        let incomplete = Incomplete {
            reason: "max_output_tokens",
        };
        Self {
            status: if partial { "incomplete" } else { "completed" },
            incomplete_details: partial.then_some(incomplete),
            output: items.iter().map(Item::json).collect(),
            usage: Some(outcome.into()),
            ganglion: Some(outcome.into()),
            ..self
        }
    }

    /// Returns the response with its items and an error that ended it.
    pub(super) fn failed(self, items: &'a [Item], error: &'a Error) -> Self {
        Self {
            status: "failed",
            error: Some(Failure {
                // OpenAI has no code for other reasons.
                code: "server_error",
                message: &error.message,
            }),
            output: items.iter().map(Item::json).collect(),
            ..self
        }
    }
}

fn repeated<T>(kept: Option<&RawValue>, default: T) -> Repeated<'_, T> {
    match kept {
        Some(raw) => Repeated::Given(raw),
        None => Repeated::Default(default),
    }
}
