//! The prefix of a prompt that cached tokens can serve.

use std::ops::Range;

use serde::Serialize;

use crate::choice::Choice;

/// The first number that stands for a row of an image in a prompt, in place of a token. No vocabulary has as many tokens.
/// Two rows have the same number if they are the same row of the same image, and only then.
pub const FIRST_IMAGE_ROW: u32 = 1 << 31;

/// The family of kernels that computed the K and V of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Prefill, together with other tokens.
    Prompt,
    /// A decode step.
    Step,
}

/// The cached tokens that a turn may reuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reuse {
    /// Only tokens with the same bits as in an uninterrupted conversation.
    #[default]
    Exact,
    /// All equal tokens.
    Fast,
}

impl Choice for Reuse {
    const ALL: &'static [Self] = &[Self::Exact, Self::Fast];

    fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Fast => "fast",
        }
    }
}

/// A prompt, and the ranges of its tokens that were generated, which steps must have computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    pub tokens: &'a [u32],
    /// The generated ranges, in order.
    pub said: &'a [Range<usize>],
}

impl<'a> Wanted<'a> {
    /// A prompt without generated tokens.
    #[must_use]
    pub const fn without_answers(tokens: &'a [u32]) -> Self {
        Self { tokens, said: &[] }
    }

    fn family(&self, at: usize) -> Family {
        let after = self.said.partition_point(|range| range.end <= at);
        match self.said.get(after) {
            Some(range) if range.contains(&at) => Family::Step,
            _ => Family::Prompt,
        }
    }
}

/// The length of the longest prefix of a prompt that cached tokens can serve.
#[must_use]
pub fn common_prefix(held: &[(u32, Family)], prompt: Wanted<'_>, reuse: Reuse) -> usize {
    let wanted = prompt.tokens.iter().enumerate();
    let serves = |((token, family), (at, wanted)): &(&(u32, Family), (usize, &u32))| {
        token == *wanted && (reuse == Reuse::Fast || *family == prompt.family(*at))
    };
    held.iter().zip(wanted).take_while(serves).count()
}
