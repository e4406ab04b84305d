//! The JSON of answers, whole and in chunks, which have one form.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::answer::likelihood;
use super::super::answer::receipt::Receipt;
use super::super::chat::answer::ChunkUsage;
use crate::engine::Likelihood;

/// An answer, or a part of one.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "ChunkUsage::is_absent")]
    pub(super) usage: ChunkUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ganglion: Option<Receipt<'a>>,
}

/// The type of all answers and their parts.
pub(super) const OBJECT: &str = "text_completion";

#[derive(Debug, Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u8,
    pub(super) text: &'a str,
    pub(super) logprobs: Option<Logprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}

/// The probabilities of tokens, an element of each list for each token.
#[derive(Debug, Default, Serialize)]
pub(super) struct Logprobs<'a> {
    tokens: Vec<&'a str>,
    #[serde(rename = "token_logprobs")]
    chosen: Vec<f32>,
    /// Of several tokens with one text, the most probable.
    #[serde(rename = "top_logprobs")]
    best: Vec<BTreeMap<&'a str, f32>>,
    /// The characters of the answer before each token.
    text_offset: Vec<usize>,
}

impl<'a> Logprobs<'a> {
    /// Returns the probabilities of some tokens, `offset` characters after the beginning of the text; `None` without any.
    pub(super) fn of(likelihoods: &'a [Likelihood], mut offset: usize) -> Option<Self> {
        if likelihoods.is_empty() {
            return None;
        }
        let mut all = Self::default();
        for one in likelihoods {
            all.tokens.push(&one.text);
            all.chosen.push(likelihood::logprob(one));
            let mut best = BTreeMap::new();
            for one in &one.best {
                best.entry(&*one.text)
                    .or_insert_with(|| likelihood::logprob(one));
            }
            all.best.push(best);
            all.text_offset.push(offset);
            offset += one.text.chars().count();
        }
        Some(all)
    }
}
