//! A vocabulary that has been checked against itself and its merges.
//!
//! The `tokenizers` crate indexes its tables unchecked and asserts what it believes of a file, so
//! nothing reaches it that has not been proven here.

use std::collections::{HashMap, HashSet};

use tokenizers::utils::byte_level::char_to_byte;

use super::decode::Bytes;
use super::definition::{Kind, Token};
use super::special::{Special, Specials};
use crate::model::language::LanguageError;

/// No vocabulary in use has a tenth of it; ids beyond are a damaged file's.
const MAX_TOKENS: usize = 1 << 22;
/// The `tokenizers` crate stores a length in 16 bits.
const MAX_SPELLING: usize = u16::MAX as usize;

/// End tokens by their spelling: files often name only one of them.
const USUAL_ENDS: [&str; 5] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
];

#[derive(Debug)]
pub(super) struct Vocabulary {
    /// They are in the order of their ids.
    tokens: Vec<Option<Token>>,
    /// Ordinary tokens by spelling.
    ordinary: HashMap<String, u32>,
    len: u32,
}

impl Vocabulary {
    /// Proves that spellings are unique and that every merge joins two ordinary tokens to a third.
    pub(super) fn check(
        mut tokens: Vec<Option<Token>>,
        merges: &[(String, String)],
    ) -> Result<Self, LanguageError> {
        let len = u32::try_from(tokens.len())
            .ok()
            .filter(|_| (1..=MAX_TOKENS).contains(&tokens.len()))
            .ok_or_else(|| {
                damaged(format!(
                    "it has {} tokens; 1 to {MAX_TOKENS} are possible",
                    tokens.len()
                ))
            })?;
        let by_spelling = index(&tokens)?;
        demote_mergeable(&mut tokens, &by_spelling, merges);
        let mut ordinary = HashMap::with_capacity(tokens.len());
        for (spelling, id) in by_spelling {
            let token = tokens.get(id as usize).and_then(Option::as_ref);
            // A token with a character outside the byte-level alphabet cannot be reached from text.
            if token.is_some_and(|token| token.kind == Kind::Ordinary)
                && spelling.chars().all(|c| char_to_byte(c).is_some())
            {
                ordinary.insert(spelling, id);
            }
        }
        if ordinary.is_empty() {
            return Err(damaged("it has no token for any byte of text".into()));
        }
        for (rank, (left, right)) in merges.iter().enumerate() {
            let product = [left.as_str(), right.as_str()].concat();
            for part in [left, right, &product] {
                if !ordinary.contains_key(part) {
                    return Err(damaged(format!(
                        "merge {rank} names {part:?}, which is no token that text is made of"
                    )));
                }
            }
        }
        Ok(Self {
            tokens,
            ordinary,
            len,
        })
    }

    /// One more than the largest id.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The spelling of the token that plays `role`.
    pub(super) fn name(
        &self,
        role: &str,
        id: Option<u32>,
    ) -> Result<Option<String>, LanguageError> {
        let Some(id) = id else { return Ok(None) };
        match self.tokens.get(id as usize) {
            Some(Some(token)) => Ok(Some(token.spelling.clone())),
            _ => Err(damaged(format!("{role} is {id}, which is no token's id"))),
        }
    }

    /// Control tokens that end a turn by common agreement.
    pub(super) fn usual_ends(&self) -> Vec<u32> {
        self.with_kind(Kind::Control)
            .filter(|(_, spelling)| USUAL_ENDS.contains(spelling))
            .map(|(id, _)| id)
            .collect()
    }

    /// Control and user-defined tokens.
    pub(super) fn specials(&self) -> Specials {
        let of = |kind, control| {
            self.with_kind(kind).map(move |(id, spelling)| Special {
                id,
                spelling: spelling.into(),
                control,
            })
        };
        Specials::new(of(Kind::Control, true).chain(of(Kind::UserDefined, false)))
    }

    /// What each id adds to a decoded text.
    pub(super) fn bytes(&self) -> Bytes {
        let alphabetic = |c: char| char_to_byte(c).map_or_else(|| encoded(c), |byte| vec![byte]);
        Bytes::new(self.tokens.iter().map(|token| match token {
            Some(token) => match token.kind {
                Kind::Ordinary => token.spelling.chars().flat_map(alphabetic).collect(),
                Kind::UserDefined => token.spelling.clone().into_bytes(),
                Kind::Control | Kind::Unused => Vec::new(),
            },
            None => Vec::new(),
        }))
    }

    /// The ids of ordinary tokens by spelling.
    pub(super) fn into_ordinary(self) -> HashMap<String, u32> {
        self.ordinary
    }

    fn with_kind(&self, kind: Kind) -> impl Iterator<Item = (u32, &str)> {
        (0..self.len)
            .zip(&self.tokens)
            .filter_map(move |(id, token)| match token {
                Some(token) if token.kind == kind => Some((id, token.spelling.as_str())),
                _ => None,
            })
    }
}

fn damaged(what: String) -> LanguageError {
    LanguageError::Vocabulary(what)
}

fn encoded(c: char) -> Vec<u8> {
    c.to_string().into_bytes()
}

/// Ids by spelling, of all tokens in use that have one.
fn index(tokens: &[Option<Token>]) -> Result<HashMap<String, u32>, LanguageError> {
    let mut by_spelling = HashMap::with_capacity(tokens.len());
    for (id, token) in (0_u32..).zip(tokens) {
        let Some(Token { spelling, kind }) = token else {
            continue;
        };
        if spelling.is_empty() || *kind == Kind::Unused {
            continue;
        }
        if spelling.len() > MAX_SPELLING {
            let bytes = spelling.len();
            return Err(damaged(format!(
                "token {id} is {bytes} bytes long; {MAX_SPELLING} are possible"
            )));
        }
        if let Some(other) = by_spelling.insert(spelling.clone(), id) {
            return Err(damaged(format!(
                "tokens {other} and {id} are both spelled {spelling:?}"
            )));
        }
    }
    Ok(by_spelling)
}

/// A user-defined token that merges make or use is one that text is made of.
fn demote_mergeable(
    tokens: &mut [Option<Token>],
    by_spelling: &HashMap<String, u32>,
    merges: &[(String, String)],
) {
    let user_defined: HashSet<u32> = (0_u32..)
        .zip(tokens.iter())
        .filter(|(_, token)| matches!(token, Some(token) if token.kind == Kind::UserDefined))
        .map(|(id, _)| id)
        .collect();
    if user_defined.is_empty() {
        return;
    }
    for (left, right) in merges {
        let product = [left.as_str(), right.as_str()].concat();
        for part in [left, right, &product] {
            if let Some(id) = by_spelling.get(part)
                && user_defined.contains(id)
                && let Some(Some(token)) = tokens.get_mut(*id as usize)
            {
                token.kind = Kind::Ordinary;
            }
        }
    }
}
