//! Places of a text that the latest tokens follow, across small changes: a replaced token, an inserted one, a skipped one.
//!
//! It does not find the places: the index of `lookup` does.

/// The most places that are followed at once.
const MOST: usize = 3;
/// The tokens after a change in which the text is searched for the place where it goes on.
const WINDOW: usize = 16;
/// Tokens without two matches in sequence, after which a place is given up.
const LOST: usize = 32;
/// The matches in sequence after which no better place is sought.
const SURE: usize = 8;
/// What each match adds to the guesses that are made, the guesses after the first match behind a change, and the most.
const GAIN: usize = 2;
const AGAIN: usize = 3;
const MOST_CREDIT: usize = 32;

/// A place that the latest tokens follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The index of the token that comes next.
    next: usize,
    /// The index after the last tokens that surely match.
    base: usize,
    /// The matches in sequence.
    hits: usize,
    /// The tokens since two matched in sequence.
    misses: usize,
    /// The guesses that it is good for.
    credit: usize,
}

/// The followed places, the earliest found first.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Follows the text to its next token. `text` is without it.
    pub(super) fn follow(&mut self, text: &[u32], token: u32) {
        for place in &mut self.0 {
            place.follow(text, token);
        }
        self.0.retain(|place| place.misses <= LOST);
        let all = std::mem::take(&mut self.0);
        for place in all {
            // Of those that have met, the surer one stays.
            match self.0.iter_mut().find(|other| other.next == place.next) {
                Some(other) if place.hits > other.hits => *other = place,
                Some(_) => {}
                None => self.0.push(place),
            }
        }
    }

    /// Returns the most matches in sequence.
    pub(super) fn hits(&self) -> usize {
        self.0.iter().map(|place| place.hits).max().unwrap_or(0)
    }

    /// Whether a longer match is worth a search.
    pub(super) fn seeks(&self) -> bool {
        self.hits() < SURE
    }

    /// Adds a place after which `length` tokens match, in place of the earliest one.
    pub(super) fn add(&mut self, next: usize, length: usize) {
        if self.0.iter().any(|place| place.next == next) {
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Place {
            next,
            base: next,
            hits: length,
            misses: 0,
            credit: length,
        });
    }

    /// Returns the index of the token that comes next at the surest place, and how many guesses it is good for.
    pub(super) fn best(&self) -> Option<(usize, usize)> {
        let good = self.0.iter().filter(|place| place.credit > 0);
        let best = good.max_by_key(|place| (place.hits, place.credit))?;
        Some((best.next, best.credit))
    }
}

impl Place {
    fn follow(&mut self, text: &[u32], token: u32) {
        if text.get(self.next) == Some(&token) {
            self.next += 1;
            self.hits += 1;
            self.credit = (self.credit + GAIN).min(MOST_CREDIT);
            if self.hits >= 2 {
                (self.base, self.misses) = (self.next, 0);
            }
            return;
        }
        self.misses += 1;
        self.credit /= 2;
        let mut after = text.iter().skip(self.base).take(WINDOW);
        if let Some(skipped) = after.position(|other| *other == token) {
            self.next = self.base + skipped + 1;
            self.hits = 1;
            self.credit = self.credit.max(AGAIN);
        } else {
            // A replaced token, until more is known.
            self.next += 1;
            self.hits = 0;
        }
    }
}
