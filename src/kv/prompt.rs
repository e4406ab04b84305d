//! What of what is held serves a prompt.

use std::ops::Range;

use clap::ValueEnum;
use serde::Serialize;

/// What computed a token's K and V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// It was read, among others.
    Prompt,
    /// It was said, in a step.
    Step,
}

/// What of other sequences, and of a conversation's own past, serves a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Reuse {
    /// What has the same bits as if the conversation had never been interrupted.
    #[default]
    Exact,
    /// All that has the same tokens serves.
    Fast,
}

/// A prompt: tokens, and which of them were said, and so are to be as steps make them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    pub tokens: &'a [u32],
    /// They are in their order.
    pub said: &'a [Range<usize>],
}

impl<'a> Wanted<'a> {
    /// All of it is to be read.
    #[must_use]
    pub const fn read(tokens: &'a [u32]) -> Self {
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

/// How many tokens of a prompt, from the first, what was computed of others serves.
#[must_use]
pub fn common_prefix(held: &[(u32, Family)], prompt: Wanted<'_>, reuse: Reuse) -> usize {
    let wanted = prompt.tokens.iter().enumerate();
    let serves = |((token, family), (at, wanted)): &(&(u32, Family), (usize, &u32))| {
        token == *wanted && (reuse == Reuse::Fast || *family == prompt.family(*at))
    };
    held.iter().zip(wanted).take_while(serves).count()
}
