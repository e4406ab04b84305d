//! The text of a request that is read by calls: kept until the request's object goes, for callers that take neither
//! descriptors nor signals.

use parking_lot::Mutex;

use super::Error;

/// Bytes of text that are kept of a request.
pub(super) const KEPT: usize = 1 << 20;
/// Bytes of text that one call reads at most.
pub(super) const PIECE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Output(Mutex<String>);

/// A part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Where the next one begins.
    pub(super) next: u64,
    /// Nothing follows, now or later.
    pub(super) done: bool,
}

impl Output {
    /// `false` if there is no room for it: from then on nothing more may be added.
    pub(super) fn push(&self, text: &str) -> bool {
        let mut kept = self.0.lock();
        let room = kept.len() + text.len() <= KEPT;
        if room {
            kept.push_str(text);
        }
        room
    }

    /// The text from `offset`, in bytes, on; `ended` says that no more will be added.
    pub(super) fn read(&self, offset: u64, ended: bool) -> Result<Piece, Error> {
        let kept = self.0.lock();
        let rest = usize::try_from(offset).ok().and_then(|at| kept.get(at..));
        let Some(rest) = rest else {
            return Err(Error::InvalidOption(format!(
                "there is no character at byte {offset} of the {} that there are; begin with 0, then give what next was",
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
            let piece = output.read(next, true).expect("it goes on");
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
