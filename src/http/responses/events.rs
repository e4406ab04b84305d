//! The JSON of the events of a stream.

use serde::Serialize;

use super::items::{ItemJson, PartJson, TokenLogprob};
use super::response::Response;

/// An event: its name, its number in the stream, and what it is about.
#[derive(Debug, Serialize)]
pub(super) struct Numbered<T> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) sequence_number: u64,
    #[serde(flatten)]
    pub(super) of: T,
}

/// The response begins or ends.
#[derive(Debug, Serialize)]
pub(super) struct OfResponse<'a> {
    pub(super) response: Response<'a>,
}

/// An item begins or ends.
#[derive(Debug, Serialize)]
pub(super) struct OfItem<'a> {
    pub(super) output_index: usize,
    pub(super) item: ItemJson<'a>,
}

/// A part of an item begins or ends.
#[derive(Debug, Serialize)]
pub(super) struct OfPart<'a> {
    #[serde(flatten)]
    pub(super) place: Place<'a>,
    pub(super) part: PartJson<'a>,
}

/// A text grows.
#[derive(Debug, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(flatten)]
    pub(super) place: Place<'a>,
    #[serde(rename = "delta")]
    pub(super) more: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<Vec<TokenLogprob<'a>>>,
}

/// A text is complete.
#[derive(Debug, Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    pub(super) place: Place<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<Vec<TokenLogprob<'a>>>,
}

/// Where a text is. Items without parts have no `content_index`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Place<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<usize>,
}
