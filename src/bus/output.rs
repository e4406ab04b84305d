//! The text of a request that is read by calls, and its log probabilities. They stay as long as the object of the request.

use parking_lot::{Mutex, MutexGuard};

use super::error::Error;
use super::likelihoods::Likelihoods;

/// The most bytes of text of one request.
pub(super) const KEPT: usize = 1 << 20;
/// The most bytes of text that one call returns.
pub(super) const PIECE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Output {
    text: Mutex<String>,
    likelihoods: Mutex<Likelihoods>,
}

/// A part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// The offset of the next part.
    pub(super) next: u64,
    /// Whether the text ends here.
    pub(super) done: bool,
}

impl Output {
    /// Adds text; `false` if there is no room for it: the caller then adds nothing more.
    pub(super) fn push(&self, text: &str) -> bool {
        let mut kept = self.text.lock();
        let room = kept.len() + text.len() <= KEPT;
        if room {
            kept.push_str(text);
        }
        room
    }

    /// Returns the text from `offset`, in bytes, on; `ended` says that no more will be added.
    pub(super) fn read(&self, offset: u64, ended: bool) -> Result<Piece, Error> {
        let kept = self.text.lock();
        let rest = usize::try_from(offset).ok().and_then(|at| kept.get(at..));
        let Some(rest) = rest else {
            return Err(Error::InvalidOption(format!(
                "offset {offset} is past the end of the text ({} bytes) or inside a character; start at 0, then pass next",
                kept.len()
            )));
        };
        // A character has at most 4 bytes.
        let most = PIECE.min(rest.len());
        let mut ends = (most.saturating_sub(3)..=most).rev();
        let end = ends.find(|end| rest.is_char_boundary(*end));
        let text = &rest[..end.unwrap_or_default()];
        Ok(Piece {
            text: text.to_owned(),
            next: offset + text.len() as u64,
            done: ended && text.len() == rest.len(),
        })
    }

    /// Returns the log probabilities, as far as there is room.
    pub(super) fn likelihoods(&self) -> MutexGuard<'_, Likelihoods> {
        self.likelihoods.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded_whole_characters_and_make_the_text() {
        let output = Output::default();
        let text = "né".repeat(PIECE);
        assert!(output.push(&text) && !output.push(&"x".repeat(KEPT)));
        let (mut read, mut next, mut pieces) = (String::new(), 0, 0);
        loop {
            let piece = output.read(next, true).expect("there is more");
            assert!(piece.text.len() <= PIECE && !piece.text.is_empty());
            read += &piece.text;
            next = piece.next;
            pieces += 1;
            if piece.done {
                break;
            }
        }
        assert_eq!((read == text, pieces), (true, 4));
        let end = Piece {
            text: String::new(),
            next,
            done: false,
        };
        assert_eq!(output.read(next, false).ok(), Some(end));
        for nowhere in [2, next + 1, u64::MAX] {
            let refused = output.read(nowhere, true);
            assert!(matches!(refused, Err(Error::InvalidOption(_))), "{nowhere}");
        }
    }
}
