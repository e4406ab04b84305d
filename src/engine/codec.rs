//! How a conversation becomes tokens: by the model's own language, or, for the scripted engine, by words.

use super::Refusal;
use super::session::Answer;
use crate::journal;
use crate::model::language::{Decoder, LanguageError, Prompt};
use crate::model::{Language, Message};

/// Encodes conversations.
#[derive(Debug)]
pub enum Codec {
    Model(Language),
    /// One token a word: the scripted engine has no vocabulary.
    Words,
}

impl Codec {
    /// The tokens of a conversation. `last` is the turn before, whose tokens are kept as a prefix where the
    /// template allows it.
    ///
    /// # Errors
    /// `InvalidMessages` if the template refuses them, `ContextFull` if no token could follow.
    pub fn encode(
        &self,
        messages: &[Message],
        last: Option<(&Prompt, &Answer)>,
        thinking: Option<bool>,
        context: usize,
    ) -> Result<Prompt, Refusal> {
        let prompt = match self {
            Self::Model(language) => {
                let prompt = match last {
                    Some((
                        prompt,
                        Answer {
                            text,
                            tokens: Some(tokens),
                        },
                    )) => language.continue_prompt(prompt, text, tokens, messages, thinking),
                    _ => language.prompt(messages, thinking),
                };
                prompt.map_err(|error| {
                    let text = error.to_string();
                    if let LanguageError::Stopped(_) | LanguageError::Process(_) = error {
                        journal::template_stopped(&text);
                    }
                    Refusal::InvalidMessages(text)
                })?
            }
            Self::Words => Prompt::from_words(
                messages
                    .iter()
                    .flat_map(|message| message.content.split_whitespace()),
            ),
        };
        let tokens = prompt.tokens.len();
        if tokens >= context {
            Err(Refusal::ContextFull { tokens, context })
        } else {
            Ok(prompt)
        }
    }

    /// What turns tokens into text; `None` for the scripted engine, which has no vocabulary.
    #[must_use]
    pub fn decoder(&self) -> Option<Decoder> {
        match self {
            Self::Model(language) => Some(language.decoder()),
            Self::Words => None,
        }
    }

    /// Whether a token ends the model's turn.
    #[must_use]
    pub fn is_end(&self, token: u32) -> bool {
        matches!(self, Self::Model(language) if language.is_end(token))
    }
}
