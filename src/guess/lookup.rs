//! Proposes the tokens that followed an earlier occurrence of the latest tokens of a conversation: a text that quotes or
//! edits another repeats much of it (prompt lookup decoding: Saxena 2023). Earlier answers of the same user may match as well.
//!
//! An index has the latest place of each sequence of `LEAST` tokens, and a chain to the earlier ones. `places` follows what was
//! found across small changes. A token takes constant time and memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::places::Places;

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
    /// Where the latest tokens go on.
    places: Places,
    /// Other texts that may match, the latest first.
    others: Vec<Arc<Self>>,
}

impl Lookup {
    /// Adds the next token.
    pub fn push(&mut self, token: u32) {
        self.places.follow(&self.tokens, token);
        self.tokens.push(token);
        if let (Some(last), Ok(end)) = (
            self.tokens.last_chunk::<LEAST>(),
            u32::try_from(self.tokens.len()),
        ) {
            let before = self.latest.insert(*last, end);
            self.earlier.push(before.unwrap_or_default());
        }
        if self.places.seeks()
            && let Some((place, length)) = self.longest_match()
            && length > self.places.hits()
        {
            self.places.add(place, length);
        }
    }

    /// Sets other texts that may match, the latest first.
    pub fn set_others(&mut self, others: Vec<Arc<Self>>) {
        self.others = others;
    }

    /// Returns the tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns at most `most` tokens that followed the surest place. A short match is weak evidence: it has few of them.
    #[must_use]
    pub fn propose(&self, most: usize) -> Vec<u32> {
        if let Some((other, place, length)) = self.longest_other()
            && length > self.places.hits()
        {
            let followed = other.tokens[place..].iter().take(most.min(length));
            return followed.copied().collect();
        }
        let Some((place, good)) = self.places.best() else {
            return Vec::new();
        };
        // A match that reaches the end is a repetition, which may go on.
        let period = self.tokens.len().saturating_sub(place);
        let places = (0..most.min(good)).filter_map(|at| Some(place + at.checked_rem(period)?));
        places.map(|place| self.tokens[place]).collect()
    }

    /// Returns the number of tokens up to the end of the longest match, and its length.
    fn longest_match(&self) -> Option<(usize, usize)> {
        self.longest_match_of(&self.tokens, self.before(self.tokens.len()))
    }

    /// Returns the other text with the longest match that a token follows, and the match as `longest_match` does.
    fn longest_other(&self) -> Option<(&Self, usize, usize)> {
        let last = self.tokens.last_chunk::<LEAST>()?;
        let mut longest: Option<(&Self, usize, usize)> = None;
        for other in &self.others {
            let end = other.tokens.len();
            let found = other.latest.get(last).map(|place| *place as usize);
            let found = found.and_then(|at| if at < end { Some(at) } else { other.before(at) });
            if let Some((place, length)) = other.longest_match_of(&self.tokens, found)
                && longest.is_none_or(|(.., most)| length > most)
            {
                longest = Some((other, place, length));
            }
        }
        longest
    }

    /// Returns the longest match of the last tokens of a text, from a place on.
    fn longest_match_of(&self, text: &[u32], first: Option<usize>) -> Option<(usize, usize)> {
        let mut longest: Option<(usize, usize)> = None;
        let places = std::iter::successors(first, |at| self.before(*at));
        for place in places.take(PLACES) {
            let length = self.match_length(text, place);
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

    /// Returns how many tokens before `place` equal the last ones of a text.
    fn match_length(&self, text: &[u32], place: usize) -> usize {
        let pairs = self.tokens[..place].iter().rev();
        let pairs = pairs.zip(text.iter().rev()).take(LONGEST);
        pairs.take_while(|(own, latest)| own == latest).count()
    }
}

impl FromIterator<u32> for Lookup {
    fn from_iter<I: IntoIterator<Item = u32>>(tokens: I) -> Self {
        let mut lookup = Self::default();
        tokens.into_iter().for_each(|token| lookup.push(token));
        lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[u32]) -> Lookup {
        tokens.iter().copied().collect()
    }

    #[test]
    fn a_longer_match_in_another_text_comes_first() {
        let mut lookup = of(&[1, 2, 3, 9, 8, 1, 2, 3]);
        let others = [
            &[7, 7, 1, 2, 3][..],
            &[8, 1, 2, 3, 4, 5, 6, 7],
            &[0, 1, 2, 3, 6],
        ];
        lookup.set_others(others.map(|text| Arc::new(of(text))).into());
        assert_eq!(lookup.propose(3), [4, 5, 6]);
        assert_eq!(lookup.propose(7), [4, 5, 6, 7]);
        lookup.push(9);
        assert_eq!(lookup.propose(2), [8, 1], "its own text matches alone");
        let mut short = of(&[1, 2]);
        short.set_others(vec![Arc::new(of(&[1, 2, 3]))]);
        assert!(short.propose(2).is_empty());
        // No token follows the end of a text.
        let mut ends = of(&[5, 6, 7]);
        ends.set_others(vec![Arc::new(of(&[5, 6, 7]))]);
        assert!(ends.propose(2).is_empty());
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
        assert_eq!(of(&longest).propose(4), [4, 7, 1, 2]);
    }

    #[test]
    fn an_edit_is_followed() {
        let text: Vec<u32> = (1..30).collect();
        let after = |edited: &[u32]| of(&[&text[..], edited].concat()).propose(2);
        assert_eq!(after(&[1, 2, 3, 4, 99]), [6, 7], "a replaced token");
        assert_eq!(after(&[1, 2, 3, 4, 7]), [8, 9], "skipped ones");
        assert_eq!(after(&[1, 2, 3, 4, 97, 98, 99, 5]), [6, 7], "new ones");
        let unrelated: Vec<u32> = (100..140).collect();
        assert!(after(&[&[1, 2, 3, 4], &unrelated[..]].concat()).is_empty());
        // What follows a part of the new text is in the old one.
        let form = [1, 2, 3, 50, 51, 52, 4, 5, 6, 50, 51, 52, 7];
        assert_eq!(after(&form), [8, 9]);
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
                let lengths = ends.map(|end| (end, lookup.match_length(all, end)));
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
