//! A model's vocabulary as llguidance wants it. Special tokens are marked: no text of a grammar is one of them. Nor is any with
//! the byte 0 in it, which no answer may have (`Decoder`).

use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::model::language::Words;

/// Bytes of a token, and of all: of more a trie cannot be made. The largest vocabularies have a tenth of the one and two thirds of
/// the other; what is left out no guided answer says.
const LONGEST: usize = 512;
const MOST: usize = 4_000_000;

struct Vocabulary {
    trie: TokTrie,
    words: Words,
}

/// The trie of all tokens; `None` for a vocabulary in which nothing ends an answer.
pub(super) fn environment(words: &Words) -> Option<TokEnv> {
    let [end, ..] = *words.ends() else {
        return None;
    };
    let mut all = 0;
    let mut tokens: Vec<Vec<u8>> = (0..words.count())
        .map(|id| match words.bytes(id) {
            bytes if bytes.contains(&0) || bytes.len() > LONGEST => Vec::new(),
            bytes => {
                all += bytes.len();
                if all > MOST {
                    Vec::new()
                } else {
                    bytes.to_vec()
                }
            }
        })
        .collect();
    for (id, spelling) in words.specials() {
        if let Some(token) = tokens.get_mut(id as usize) {
            *token = [&[TokTrie::SPECIAL_TOKEN_MARKER], spelling.as_bytes()].concat();
        }
    }
    let trie = TokTrie::from(&TokRxInfo::new(words.count(), end), &tokens);
    Some(Arc::new(Vocabulary {
        trie: trie.with_eos_tokens(words.ends()),
        words: words.clone(),
    }))
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// Their own words, unless those say it otherwise: a tokenizer may compose what was decomposed, and a grammar takes no other
    /// bytes than its own.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| self.words.encode(text);
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, encode);
        let said = tokens.iter().flat_map(|id| self.words.bytes(*id));
        if bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) || said.eq(bytes) {
            tokens
        } else {
            self.trie.greedy_tokenize(bytes)
        }
    }
}
