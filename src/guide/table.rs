//! A model's vocabulary in the form that the processes of guides receive.

use super::frame::Vocabulary;
use crate::model::language::Words;

/// The most bytes of one token, and of all tokens, in a trie. The largest vocabularies have a tenth of the first and
/// two thirds of the second. A guided answer contains no token that is left out.
const LONGEST: usize = 512;
const MOST: usize = 4_000_000;

/// Returns the table of a vocabulary, and the bytes of all its tokens, one after the other. A token with the byte 0 has
/// no bytes there, because no answer may contain it (`Decoder`).
pub(super) fn of(words: &Words) -> (Vocabulary, Vec<u8>) {
    let mut all = Vec::new();
    let mut lengths = Vec::with_capacity(words.count() as usize);
    for id in 0..words.count() {
        let bytes = words.bytes(id);
        let fits = bytes.len() <= LONGEST && all.len() + bytes.len() <= MOST;
        let bytes = if fits && !bytes.contains(&0) {
            bytes
        } else {
            &[]
        };
        lengths.push(u32::try_from(bytes.len()).unwrap_or(0));
        all.extend_from_slice(bytes);
    }
    let specials = words.specials();
    let vocabulary = Vocabulary {
        ends: words.ends().to_vec(),
        specials: specials.map(|(id, text)| (id, text.to_owned())).collect(),
        lengths,
    };
    (vocabulary, all)
}
