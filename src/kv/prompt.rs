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

/// The greatest number of first positions, at most `positions`, that do not end between two rows of an image. `number`
/// returns the token at a position.
pub(super) fn before_image(number: impl Fn(usize) -> Option<u32>, positions: usize) -> usize {
    // Two images without text between them count as one.
    let follows = |at: usize| {
        let before = at.checked_sub(1).and_then(&number);
        before.is_some_and(|row| row >= FIRST_IMAGE_ROW && number(at) == row.checked_add(1))
    };
    let mut positions = positions;
    while follows(positions) {
        positions -= 1;
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_an_image_or_after_it() {
        let first = FIRST_IMAGE_ROW;
        let tokens = [1, first, first + 1, first + 2, 2, first + 7, first + 8];
        let number = |at: usize| tokens.get(at).copied();
        let whole = [0, 1, 2, 3, 4, 5, 6, 7, 9].map(|at| before_image(number, at));
        assert_eq!(whole, [0, 1, 1, 1, 4, 5, 5, 7, 9]);
        assert_eq!(before_image(|_| Some(u32::MAX), 3), 3);
    }
}
