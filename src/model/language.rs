//! A model's language.

use super::Message;

/// A rendered conversation and its tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub tokens: Vec<u32>,
}

impl Prompt {
    /// A prompt of the scripted engine: one token a word.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        Self {
            tokens: words
                .map(|word| u32::try_from(word.len()).unwrap_or(u32::MAX))
                .collect(),
        }
    }
}

/// Tokenizer and chat template.
#[derive(Debug)]
pub struct Language;

/// Why a conversation could not be encoded, or a language not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LanguageError {}

impl Language {
    /// # Errors
    pub fn prompt(
        &self,
        _messages: &[Message],
        _thinking: Option<bool>,
    ) -> Result<Prompt, LanguageError> {
        todo!()
    }
    /// # Errors
    pub fn continue_prompt(
        &self,
        _previous: &Prompt,
        _answer: &str,
        _answer_tokens: &[u32],
        _messages: &[Message],
        _thinking: Option<bool>,
    ) -> Result<Prompt, LanguageError> {
        todo!()
    }
}
