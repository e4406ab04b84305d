//! Whether answers are guessed whose callers leave it open.

use serde::Serialize;

use super::source::{Guess, Source};
use crate::choice::Choice;

/// Whether answers are guessed where their callers leave it open, and by which proposer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Off,
    /// Where guesses pay by what was measured.
    Auto,
    /// Earlier tokens of the same conversation.
    Lookup,
}

impl Choice for Mode {
    const ALL: &'static [Self] = &[Self::Off, Self::Auto, Self::Lookup];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Lookup => "lookup",
        }
    }
}

impl Mode {
    /// Returns how an answer is guessed whose caller asks for guesses, or for none, or leaves it open. A step guesses at most
    /// `most` tokens. If guesses are off, a caller who asks for them gets those that pay.
    #[must_use]
    pub fn guess(self, asked: Option<bool>, most: usize) -> Option<Guess> {
        let is_auto = match (self, asked) {
            (_, Some(false)) | (Self::Off, None) => return None,
            (Self::Off | Self::Auto, _) => true,
            (Self::Lookup, _) => false,
        };
        Some(Guess {
            source: Source::Lookup,
            most,
            is_auto,
        })
    }
}
