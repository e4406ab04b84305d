//! Whether two vocabularies give each token the same meaning, so that tokens of one model can be tokens of another.
//!
//! Neither the merges, the chat templates nor the tokens that end a turn count: only one of the two models encodes text and
//! ends answers.

use std::fmt;

use super::Language;

/// Text of tokens that only fill the rows of an embedding, in files of llama.cpp.
const PADDING: &[u8] = b"[PAD";

/// The first difference between the vocabularies of two models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VocabularyDifference {
    token: u32,
    model: String,
    draft: String,
}

impl fmt::Display for VocabularyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            token,
            model,
            draft,
        } = self;
        write!(f, "token {token} is {model} there and {draft} here")
    }
}

/// What a token means.
#[derive(PartialEq, Eq)]
struct Meaning<'a> {
    bytes: &'a [u8],
    special: Option<&'a str>,
}

impl Meaning<'_> {
    /// Whether no text and no template has the token.
    fn is_padding(&self) -> bool {
        let is_named = self
            .special
            .is_some_and(|name| !is_padding(name.as_bytes()));
        !is_named && (self.bytes.is_empty() || is_padding(self.bytes))
    }

    fn shown(&self) -> String {
        match self.special {
            Some(special) => format!("the special token {special:?}"),
            None if self.bytes.is_empty() => "no text".to_owned(),
            None => format!("{:?}", String::from_utf8_lossy(self.bytes)),
        }
    }
}

fn is_padding(text: &[u8]) -> bool {
    text.starts_with(PADDING)
}

impl Language {
    /// Returns the first token that means something else to a draft model. Rows of an embedding without a meaning may differ.
    #[must_use]
    pub fn difference(&self, draft: &Self) -> Option<VocabularyDifference> {
        let longest = self.vocabulary().max(draft.vocabulary());
        let ids = 0..u32::try_from(longest).unwrap_or(u32::MAX);
        ids.into_iter().find_map(|token| {
            let [own, other] = [self, draft].map(|one| one.meaning(token));
            let is_same = own == other || own.is_padding() && other.is_padding();
            (!is_same).then(|| VocabularyDifference {
                token,
                model: own.shown(),
                draft: other.shown(),
            })
        })
    }

    fn meaning(&self, token: u32) -> Meaning<'_> {
        let special = self.tokenizer.specials().with_id(token);
        let known = (token as usize) < self.vocabulary();
        Meaning {
            bytes: if known {
                self.tokenizer.bytes(token)
            } else {
                &[]
            },
            special: special.map(|special| special.spelling.as_ref()),
        }
    }
}
