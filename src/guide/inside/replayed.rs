//! Answers whose text is known before: the masks that the daemon gets allow its next token alone.
//!
//! A benchmark's program sets them, so that a model with random weights writes what a real model has written. All else, such as
//! the time of masks, is as usual. Not here: anything that gangliond does.

use std::sync::OnceLock;

/// Returns the token that comes after these ones of an answer, if they begin an answer whose text is known.
pub type Known = fn(&[u32]) -> Option<u32>;

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Sets the answers of all grammars of this program, before its `main` calls `run_if_asked`.
pub fn replay(known: Known) {
    let _ = KNOWN.set(known);
}

/// Returns the mask that allows only the token known to come after these ones; `None` if none is known, or `mask` forbids it.
pub(super) fn narrowed(mask: &[u32], tokens: &[u32]) -> Option<Vec<u32>> {
    let next = KNOWN.get()?(tokens)? as usize;
    let word = mask.get(next / 32)? & 1 << (next % 32);
    (word != 0).then(|| {
        let mut only = vec![0; mask.len()];
        only[next / 32] = word;
        only
    })
}
