//! Proposes the tokens that followed an earlier occurrence of the latest tokens of a conversation: a text that quotes or
//! edits another repeats much of it (prompt lookup decoding: Saxena 2023).
//!
//! An index has the latest place of each sequence of `LEAST` tokens, and a chain to the earlier ones. A token takes
//! constant time and memory.

use std::collections::HashMap;

/// The least length of a match, in tokens.
const LEAST: usize = 3;
/// A longer match is not measured.
const LONGEST: usize = 32;
/// The earlier places that are compared, the latest first.
const PLACES: usize = 16;

/// The tokens of a conversation, with an index.
#[derive(Debug, Default)]
pub struct Lookup {
    tokens: Vec<u32>,
    /// For each sequence of `LEAST` tokens, the number of tokens up to the end of its latest occurrence.
    latest: HashMap<[u32; LEAST], u32>,
    /// The same for the occurrence before it, by the number of tokens from `LEAST` on; 0 if there is none.
    earlier: Vec<u32>,
}

impl Lookup {
    /// Adds the next token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
        if let (Some(last), Ok(end)) = (
            self.tokens.last_chunk::<LEAST>(),
            u32::try_from(self.tokens.len()),
        ) {
            let before = self.latest.insert(*last, end);
            self.earlier.push(before.unwrap_or_default());
        }
    }

    /// Returns the tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns at most `most` tokens that followed the longest match of the latest tokens, the latest of equal ones. A short
    /// match is weak evidence: there are no more tokens than it has.
    #[must_use]
    pub fn propose(&self, most: usize) -> Vec<u32> {
        let Some((place, length)) = self.longest_match() else {
            return Vec::new();
        };
        // A match that reaches the end is a repetition, which may go on.
        let period = self.tokens.len() - place;
        let followed = (0..most.min(length)).map(|at| self.tokens[place + at % period]);
        followed.collect()
    }

    /// Returns the number of tokens up to the end of the longest match, and its length.
    fn longest_match(&self) -> Option<(usize, usize)> {
        let mut longest: Option<(usize, usize)> = None;
        let places = std::iter::successors(self.before(self.tokens.len()), |at| self.before(*at));
        for place in places.take(PLACES) {
            let length = self.match_length(place);
            if longest.is_none_or(|(_, most)| length > most) {
                longest = Some((place, length));
            }
        }
        longest
    }

    /// Returns the place before `place` with the same `LEAST` tokens.
    fn before(&self, place: usize) -> Option<usize> {
        let before = *self.earlier.get(place.checked_sub(LEAST)?)?;
        (before > 0).then_some(before as usize)
    }

    /// Returns how many tokens before `place` equal the latest ones.
    fn match_length(&self, place: usize) -> usize {
        let pairs = self.tokens[..place].iter().rev();
        let pairs = pairs.zip(self.tokens.iter().rev()).take(LONGEST);
        pairs.take_while(|(own, latest)| own == latest).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[u32]) -> Lookup {
        let mut lookup = Lookup::default();
        tokens.iter().for_each(|token| lookup.push(*token));
        lookup
    }

    #[test]
    fn the_longest_match_decides_and_then_the_latest() {
        let none: [u32; 0] = [];
        assert_eq!(of(&[]).propose(7), none);
        assert_eq!(of(&[1, 2, 9, 1, 2]).propose(7), none, "two are too few");
        assert_eq!(of(&[1, 2, 3, 9, 8, 1, 2, 3]).propose(2), [9, 8]);
        assert_eq!(of(&[1, 2, 3, 9, 8, 1, 2, 3]).propose(0), none);
        // A match of three tokens gives three.
        assert_eq!(of(&[1, 2, 3, 9, 8, 1, 2, 3]).propose(7), [9, 8, 1]);
        let latest = [1, 2, 3, 4, 7, 1, 2, 3, 5, 7, 6, 1, 2, 3];
        assert_eq!(of(&latest).propose(1), [5]);
        let longest = [6, 1, 2, 3, 4, 7, 1, 2, 3, 5, 7, 6, 1, 2, 3];
        assert_eq!(of(&longest).propose(7), [4, 7, 1, 2]);
    }

    #[test]
    fn a_repetition_goes_on() {
        assert_eq!(of(&[5; 4]).propose(7), [5; 3]);
        assert_eq!(of(&[5; 40]).propose(7), [5; 7]);
        let round: Vec<u32> = (0..11).map(|at| at % 4).collect();
        assert_eq!(of(&round).propose(6), [3, 0, 1, 2, 3, 0]);
    }

    /// The index finds what a search of all places finds.
    #[test]
    fn the_index_is_complete() {
        let mut random = fastrand::Rng::with_seed(58);
        let mut found = 0;
        for tokens in 2..5 {
            let mut lookup = Lookup::default();
            for _ in 0..400 {
                lookup.push(random.u32(0..tokens));
                let all = lookup.tokens();
                let ends = (LEAST..all.len()).rev();
                let lengths = ends.map(|end| (end, lookup.match_length(end)));
                let places = lengths.filter(|(_, length)| *length >= LEAST).take(PLACES);
                // Of equal ones the last is the greatest.
                let best = places.collect::<Vec<_>>().into_iter().rev();
                let best = best.max_by_key(|(_, length)| *length);
                assert_eq!(lookup.longest_match(), best);
                found += usize::from(best.is_some());
            }
        }
        assert!(found > 900, "{found}");
    }
}
