//! The tokens of a conversation's turns, oldest first. Tokens that turns share are stored once, so storing and cloning
//! all turns is cheap for a conversation of any length. This module gives the tokens no meaning.

use std::ops::Range;
use std::sync::Arc;

use super::entry::Tokens;

/// The tokens of each turn: the length of the prefix that it shares with the turn before it, and its own tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    turns: Vec<Arc<Tokens>>,
    /// The number of turns at the front that were forgotten; later turns may begin with their tokens.
    gone: usize,
}

/// The tokens of a conversation and the kernel family that computed each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub tokens: Vec<u32>,
    /// The ranges of decoded tokens (D) in order; the others were prefilled (P).
    pub decoded: Vec<Range<usize>>,
}

/// The error for entries that cannot follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

impl Trail {
    /// Appends a turn, if the turn before it has the tokens that it shares.
    pub(super) fn follow(&mut self, tokens: Tokens) -> Result<(), Contradiction> {
        if tokens.kept > self.length() {
            return Err(Contradiction);
        }
        self.push(tokens);
        Ok(())
    }

    /// Appends a turn; the shared prefix is limited to the tokens that exist.
    pub fn push(&mut self, tokens: Tokens) {
        self.turns.push(Arc::new(tokens));
    }

    /// Undoes all turns except the first `turns`.
    pub fn truncate(&mut self, turns: usize) {
        self.turns.truncate(self.gone + turns);
        if turns == 0 {
            *self = Self::default();
        }
    }

    /// Forgets the `oldest` turns.
    pub fn forget(&mut self, oldest: usize) {
        self.gone = self.turns.len().min(self.gone + oldest);
        let kept = self.turns.iter().take(self.gone + 1);
        // Later turns need nothing of earlier ones.
        let mut anew = kept.enumerate().filter(|(_, turn)| turn.kept == 0);
        if let Some((first, _)) = anew.next_back() {
            self.turns.drain(..first);
            self.gone -= first;
        }
    }

    /// Returns the tokens of the newest turn.
    #[must_use]
    pub fn newest(&self) -> Option<&Tokens> {
        let turns = self.turns.get(self.gone..).unwrap_or_default();
        turns.last().map(Arc::as_ref)
    }

    /// Returns the number of tokens after the newest turn.
    #[must_use]
    pub fn length(&self) -> usize {
        self.newest().map_or(0, Tokens::length)
    }

    /// Returns the tokens after the newest turn.
    #[must_use]
    pub fn context(&self) -> Context {
        // From the newest turn backwards: of each turn, the prefix that later turns share.
        let (mut parts, mut wanted) = (Vec::new(), self.length());
        for turn in self.turns.iter().rev() {
            if wanted == 0 {
                break;
            }
            if wanted > turn.kept {
                parts.push((turn, wanted));
            }
            wanted = wanted.min(turn.kept);
        }
        let mut context = Context::default();
        for (turn, length) in parts.into_iter().rev() {
            let Context { tokens, decoded } = &mut context;
            let answer = turn.answer.iter().flatten();
            let own = turn.prompt.iter().chain(answer).copied();
            tokens.extend(own.take(length - turn.kept));
            let said = turn.decoded();
            decoded.extend(Some(said.start..said.end.min(length)).filter(|said| !said.is_empty()));
        }
        context
    }

    /// Returns the length of the common prefix of a prompt and the conversation, computed by the same family.
    #[must_use]
    pub fn common(&self, prompt: &[u32], decoded: &[Range<usize>]) -> usize {
        let context = self.context();
        let pairs = context.tokens.iter().zip(prompt);
        let equal = pairs.take_while(|(before, now)| before == now).count();
        equal.min(parting(&context.decoded, decoded))
    }
}

impl Tokens {
    /// The number of tokens of the conversation up to the turn's end.
    #[must_use]
    pub fn length(&self) -> usize {
        self.asked() + self.answer.as_ref().map_or(0, Vec::len)
    }

    /// The number of tokens of the prompt.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.kept + self.prompt.len()
    }

    /// The range of the conversation's tokens that this turn decoded.
    fn decoded(&self) -> Range<usize> {
        let answer = self.answer.as_ref().map_or(0, Vec::len);
        self.asked()..self.asked() + self.said.min(answer)
    }
}

/// The first position that is in a range of exactly one of the two ordered lists.
fn parting(one: &[Range<usize>], other: &[Range<usize>]) -> usize {
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    match differ {
        Some((one, other)) if one.start != other.start => one.start.min(other.start),
        Some((one, other)) => one.end.min(other.end),
        None => {
            let longer = if one.len() > other.len() { one } else { other };
            let rest = longer.get(one.len().min(other.len()));
            rest.map_or(usize::MAX, |rest| rest.start)
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // ranges are what is meant
mod tests {
    use super::*;

    fn turn(kept: usize, prompt: &[u32], answer: &[u32], said: usize) -> Tokens {
        Tokens {
            kept,
            prompt: prompt.to_vec(),
            answer: Some(answer.to_vec()),
            said,
        }
    }

    #[test]
    fn every_turn_has_its_tokens_again() {
        let mut trail = Trail::default();
        let turns = [
            (turn(0, &[1, 2], &[3, 4], 2), vec![1, 2, 3, 4], vec![2..4]),
            (
                turn(4, &[5], &[6, 7], 1),
                vec![1, 2, 3, 4, 5, 6, 7],
                vec![2..4, 5..6],
            ),
            (
                turn(3, &[8], &[9], 1),
                vec![1, 2, 3, 8, 9],
                vec![2..3, 4..5],
            ),
            (turn(5, &[], &[], 0), vec![1, 2, 3, 8, 9], vec![2..3, 4..5]),
            (turn(0, &[1, 2], &[3], 0), vec![1, 2, 3], vec![]),
        ];
        for (turn, tokens, decoded) in turns.clone() {
            trail.follow(turn).expect("it follows");
            assert_eq!(trail.context(), Context { tokens, decoded });
        }
        assert!(trail.follow(turn(4, &[], &[], 0)).is_err());
        for gone in 0..3 {
            let mut trail = trail.clone();
            trail.forget(gone);
            for (at, (_, tokens, _)) in turns.iter().enumerate().skip(gone).rev() {
                trail.truncate(at + 1 - gone);
                assert_eq!(trail.context().tokens, *tokens, "{gone} {at}");
            }
        }
        trail.forget(4);
        assert_eq!(trail.turns.len(), 1, "nothing is held in vain");
        trail.truncate(0);
        assert_eq!((trail.length(), trail.context()), (0, Context::default()));
    }

    #[test]
    fn common_tokens_have_the_same_family() {
        let mut trail = Trail::default();
        trail.push(turn(0, &[1, 2], &[3, 4], 2));
        trail.push(turn(4, &[5], &[6], 1));
        let prompt = [1, 2, 3, 4, 5, 6, 7];
        let common = |decoded: &[Range<usize>]| trail.common(&prompt, decoded);
        assert_eq!(common(&[2..4, 5..6]), 6);
        assert_eq!(common(&[2..4]), 5);
        assert_eq!(common(&[2..3, 5..6]), 3);
        assert_eq!(common(&[3..4]), 2);
        assert_eq!(common(&[]), 2);
        assert_eq!(trail.common(&[1, 2, 9], &[]), 2);
    }
}
