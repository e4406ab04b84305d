//! The JSON of answers, whole and in chunks. Texts are borrowed: a chunk is written for each token.

use serde::Serialize;

use super::super::answer::likelihood;
use super::super::answer::receipt::Receipt;
use crate::engine::{FinishReason, Likelihood, Outcome};
use crate::tools::Piece;

/// A whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [Choice<'a>; 1],
    pub(super) usage: UsageCounts,
    pub(super) ganglion: Receipt<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u8,
    pub(super) message: Message<'a>,
    pub(super) logprobs: Option<Logprobs<'a>>,
    pub(super) finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<&'a str>,
    pub(super) refusal: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

/// A part of a streamed answer.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "ChunkUsage::is_absent")]
    pub(super) usage: ChunkUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ganglion: Option<Receipt<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ChunkChoice<'a> {
    pub(super) index: u8,
    pub(super) delta: Delta<'a>,
    pub(super) logprobs: Option<Logprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}

/// The usage in a chunk: null but in the last one, if the caller wants it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(in crate::http) enum ChunkUsage {
    Absent,
    Null,
    Counts(UsageCounts),
}

impl ChunkUsage {
    pub(in crate::http) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// What a chunk adds to the message.
#[derive(Debug, Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[CallPiece<'a>; 1]>,
}

#[derive(Debug, Serialize)]
pub(super) struct CallPiece<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function<'a>,
}

impl<'a> From<&'a Piece> for CallPiece<'a> {
    fn from(piece: &'a Piece) -> Self {
        Self {
            index: piece.index,
            id: piece.id.as_deref(),
            // The first piece of a call has its id.
            kind: piece.id.as_ref().map(|_| "function"),
            function: Function {
                name: piece.name.as_deref(),
                arguments: &piece.arguments,
            },
        }
    }
}

/// The probabilities of tokens.
#[derive(Debug, Serialize)]
pub(super) struct Logprobs<'a> {
    content: Vec<TokenLogprob<'a>>,
    refusal: (),
}

#[derive(Debug, Serialize)]
struct TokenLogprob<'a> {
    token: &'a str,
    logprob: f32,
    /// Null for a part of a character.
    bytes: Option<&'a [u8]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<TokenLogprob<'a>>>,
}

impl<'a> TokenLogprob<'a> {
    fn new(likelihood: &'a Likelihood) -> Self {
        Self {
            token: &likelihood.text,
            logprob: likelihood::logprob(likelihood),
            bytes: likelihood::bytes(likelihood),
            top_logprobs: None,
        }
    }
}

impl<'a> Logprobs<'a> {
    /// Returns the probabilities of some tokens; `None` without any.
    pub(super) fn of(likelihoods: &'a [Likelihood]) -> Option<Self> {
        let token = |likelihood: &'a Likelihood| TokenLogprob {
            top_logprobs: Some(likelihood.best.iter().map(TokenLogprob::new).collect()),
            ..TokenLogprob::new(likelihood)
        };
        (!likelihoods.is_empty()).then(|| Self {
            content: likelihoods.iter().map(token).collect(),
            refusal: (),
        })
    }
}

/// The counts of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::http) struct UsageCounts {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: PromptTokens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PromptTokens {
    cached_tokens: u32,
}

impl From<&Outcome> for UsageCounts {
    fn from(outcome: &Outcome) -> Self {
        let usage = &outcome.usage;
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
            prompt_tokens_details: PromptTokens {
                cached_tokens: usage.cached_tokens,
            },
        }
    }
}

/// Returns OpenAI's name of the reason for the end of an answer. An answer that the context or a deadline ended is partial,
/// as one that its length ended.
pub(in crate::http) const fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length | FinishReason::Context | FinishReason::Deadline => "length",
        // The last two are errors.
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "stop",
    }
}
