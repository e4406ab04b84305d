//! How a conversation becomes tokens: by the model's own language, or, for the scripted engine, by words.

use super::{Answer, Refusal};
use crate::journal;
use crate::model::language::{Decoder, Manner, Prompt};
use crate::model::language_error::LanguageError;
use crate::model::{Language, Message, Role};

/// What a word of a script may be taken for: it has no vocabulary that says it.
const WORD_BYTES: usize = 256;

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
    /// `InvalidMessages` if the template refuses them, `PromptBytes` if so many bytes are too many tokens in any case,
    /// `ContextFull` if no token could follow.
    pub fn encode(
        &self,
        messages: &[Message],
        last: Option<(&Prompt, &Answer)>,
        manner: Manner<'_>,
        context: usize,
    ) -> Result<Prompt, Refusal> {
        self.admit(messages, context)?;
        let prompt = match self {
            Self::Model(language) => {
                let rendered = language.render(messages, manner).map_err(|error| {
                    let text = error.to_string();
                    if let LanguageError::Stopped(_) | LanguageError::Process(_) = error {
                        journal::template_stopped(&text);
                    }
                    Refusal::InvalidMessages(text)
                })?;
                self.admit_bytes(rendered.bytes(), context)?;
                match last {
                    Some((
                        prompt,
                        Answer {
                            tokens: Some(tokens),
                            ..
                        },
                    )) => language.encode_next(prompt, tokens, rendered),
                    _ => language.encode(rendered),
                }
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

    /// The prompt of a conversation that was once these tokens; `None` unless they say the same in this model's language.
    #[must_use]
    pub fn recognize(
        &self,
        tokens: &[u32],
        messages: &[Message],
        manner: Manner<'_>,
    ) -> Option<Prompt> {
        let Self::Model(language) = self else {
            return None;
        };
        let rendered = language.render(messages, manner).ok()?;
        language.recognize(tokens, rendered)
    }

    /// Refuses a conversation that cannot fit whatever its tokens are: that costs nothing, and making them a great deal.
    /// Templates leave thoughts out of past answers, so these count only once they are rendered.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit(&self, messages: &[Message], context: usize) -> Result<(), Refusal> {
        let said = messages
            .iter()
            .filter(|message| message.role != Role::Assistant);
        self.admit_bytes(said.map(|message| message.content.len()).sum(), context)
    }

    /// The same for so many bytes of text.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit_bytes(&self, bytes: usize, context: usize) -> Result<(), Refusal> {
        let longest = match self {
            Self::Model(language) => language.longest_token(),
            Self::Words => WORD_BYTES,
        };
        if bytes > context.saturating_mul(longest) {
            return Err(Refusal::PromptBytes {
                bytes,
                context,
                longest,
            });
        }
        Ok(())
    }

    /// What turns tokens into text; `None` for the scripted engine, which has no vocabulary.
    #[must_use]
    pub fn decoder(&self) -> Option<Decoder> {
        match self {
            Self::Model(language) => Some(language.decoder()),
            Self::Words => None,
        }
    }

    /// The chat template of a model that has one.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        match self {
            Self::Model(language) => language.template(),
            Self::Words => None,
        }
    }

    /// An answer as it is spelled, special tokens too.
    #[must_use]
    pub fn spelled(&self, answer: &[u32]) -> String {
        match self {
            Self::Model(language) => language.spelled(answer),
            Self::Words => String::new(),
        }
    }

    /// The tokens between which the model thinks, and whether a prompt ends with thoughts begun.
    #[must_use]
    pub fn thinking(&self, prompt: &[u32]) -> (Option<[u32; 2]>, bool) {
        match self {
            Self::Model(language) => {
                let words = language.words();
                (words.thinking(), words.ends_in_thought(prompt))
            }
            Self::Words => (None, false),
        }
    }

    /// What a token adds to a text, by itself.
    #[must_use]
    pub fn text_of(&self, token: u32) -> String {
        match self {
            Self::Model(language) => {
                String::from_utf8_lossy(language.words().bytes(token)).into_owned()
            }
            Self::Words => String::new(),
        }
    }

    /// Whether a token ends the model's turn.
    #[must_use]
    pub fn is_end(&self, token: u32) -> bool {
        matches!(self, Self::Model(language) if language.is_end(token))
    }
}
