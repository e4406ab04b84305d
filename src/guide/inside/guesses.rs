//! The masks after guesses of an answer's next tokens.
//!
//! A twin of the answer computes them. It has the answer's tokens, and a parser and a lexer of its own: a limit that a guess
//! reaches does not concern the answer. Guesses change a copy of the twin, which is dropped.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::parsed::Parsed;
use super::replayed;
use super::serving::Process;
use crate::guide::frame::{ANSWER, FromProcess, Guessed};

/// An answer without its masks.
pub(super) struct Twin {
    parsed: Parsed,
    /// Whether the tokens that must come first are still to be added.
    forces: bool,
    /// Whether it differs from the answer, or has reached a limit, so that it computes no mask.
    is_lost: bool,
}

impl Twin {
    /// Makes a twin without tokens. `forces` says whether tokens that must come were added at the beginning of the answer.
    pub(super) fn new(parsed: Parsed, forces: bool) -> Self {
        Self {
            parsed,
            forces,
            is_lost: false,
        }
    }

    /// Adds the answer's tokens that it does not have, in the same way as the answer did. Returns whether it has all of them:
    /// the next message may arrive before.
    pub(super) fn catch_up(
        &mut self,
        answer: &Parsed,
        process: &mut Process,
        most: Duration,
    ) -> io::Result<bool> {
        if std::mem::take(&mut self.forces) {
            let parsed = &mut self.parsed;
            let forced = process.clock.bound(most, || parsed.force(drop))?;
            self.is_lost |= forced.is_err();
        }
        let all = answer.tokens();
        while !self.is_lost && self.parsed.tokens().len() < all.len() {
            if process.daemon.has_arrival() {
                return Ok(false);
            }
            let next = all[self.parsed.tokens().len()];
            let parsed = &mut self.parsed;
            let followed = process.clock.bound(most, || parsed.follow(&[next], drop))?;
            self.is_lost |= followed.is_err();
        }
        self.is_lost |= self.parsed.tokens() != all;
        Ok(!self.is_lost)
    }

    /// Reports the mask after each guess, up to a guess that is not allowed, the end of the answer, or the arrival of the next
    /// message. Before the guesses come the tokens `due`, and `mask` is the mask after these; there is none if they complete the
    /// answer.
    pub(super) fn guess(
        &mut self,
        (due, mask): (&[u32], Option<&[u32]>),
        guesses: &[u32],
        number: u32,
        process: &mut Process,
        most: Duration,
    ) -> io::Result<()> {
        let mut ahead = self.parsed.clone();
        let mut due: VecDeque<u32> = due.iter().copied().collect();
        let mut mask = mask.map(<[u32]>::to_vec);
        for (place, guess) in (ANSWER + 1..).zip(guesses) {
            if process.daemon.has_arrival() {
                break;
            }
            match due.pop_front() {
                Some(next) if next == *guess => {}
                None if mask.as_ref().is_some_and(|mask| allows(mask, *guess)) => {
                    let followed = process.clock.bound(most, || {
                        ahead.follow(&[*guess], |forced| due.extend(forced))
                    })?;
                    if followed.is_err() {
                        break;
                    }
                }
                _ => break,
            }
            let report = if let Some(next) = due.front() {
                Guessed::Forced(*next)
            } else if ahead.is_over() {
                break;
            } else if let Ok(words) = process.clock.bound(most, || ahead.mask())? {
                let narrowed = replayed::narrowed(&words, ahead.tokens());
                let written = narrowed.as_deref().unwrap_or(&words);
                process.masks.write(place, written)?;
                mask = Some(words);
                Guessed::Mask(place)
            } else {
                break;
            };
            process.send(&FromProcess::Guessed(number, report))?;
        }
        self.parsed.charge(&ahead);
        self.is_lost = ahead.has_failed();
        Ok(())
    }
}

/// Whether a mask of these words allows a token.
fn allows(mask: &[u32], token: u32) -> bool {
    let word = mask.get(token as usize / 32);
    word.is_some_and(|word| word >> (token % 32) & 1 == 1)
}
