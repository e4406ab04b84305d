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
    /// A smaller model.
    Draft,
    /// The model's own head.
    Head,
}

impl Choice for Mode {
    const ALL: &'static [Self] = &[Self::Off, Self::Auto, Self::Lookup, Self::Draft, Self::Head];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Lookup => "lookup",
            Self::Draft => "draft",
            Self::Head => "head",
        }
    }
}

impl Mode {
    /// Returns how an answer is guessed whose caller asks for guesses, or for none, or leaves it open. A step guesses at most
    /// `most` tokens. If guesses are off, a caller who asks for them gets those that pay.
    #[must_use]
    pub fn guess(self, asked: Option<bool>, most: usize) -> Option<Guess> {
        let (source, is_auto) = match (self, asked) {
            (_, Some(false)) | (Self::Off, None) => return None,
            (Self::Off | Self::Auto, _) => (Source::Any, true),
            (Self::Lookup, _) => (Source::Lookup, false),
            (Self::Draft, _) => (Source::Draft, false),
            (Self::Head, _) => (Source::Head, false),
        };
        Some(Guess {
            source,
            most,
            is_auto,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_before_the_mode() {
        let source = |mode: Mode, asked| {
            let guess = mode.guess(asked, 7);
            guess.map(|guess| (guess.source, guess.is_auto))
        };
        for mode in Mode::ALL {
            assert_eq!(source(*mode, Some(false)), None);
        }
        assert_eq!(source(Mode::Off, None), None);
        assert_eq!(source(Mode::Off, Some(true)), Some((Source::Any, true)));
        assert_eq!(source(Mode::Auto, None), Some((Source::Any, true)));
        assert_eq!(source(Mode::Lookup, None), Some((Source::Lookup, false)));
        assert_eq!(source(Mode::Draft, None), Some((Source::Draft, false)));
        assert_eq!(source(Mode::Head, None), Some((Source::Head, false)));
    }
}
