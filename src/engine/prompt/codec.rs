//! Encodes conversations: with the model's tokenizer and chat template, or by words for the scripted engine.

use crate::engine::caller::request::Refusal;
use crate::engine::session::answer::Answer;
use crate::journal;
use crate::model::language::Prompt;
use crate::model::language_error::LanguageError;
use crate::model::{Decoder, Manner};
use crate::model::{Language, Message, Role};

/// The assumed length of a word of a script, which has no vocabulary.
const WORD_BYTES: usize = 256;

/// Encodes conversations.
#[derive(Debug)]
pub enum Codec {
    Model(Language),
    /// One token for each word and each image, for the scripted engine.
    Words,
}

impl Codec {
    /// Returns the tokens of a conversation. The tokens of `last`, the previous turn, stay a prefix where the template allows
    /// it.
    ///
    /// # Errors
    /// `InvalidMessages` if the template refuses them, `PromptBytes` if the text cannot fit the context, `ContextFull` if no
    /// token could follow.
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
                let rendered =
                    (language.render(messages, manner)).map_err(|error| refusal(&error))?;
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
            Self::Words => {
                let tokens = messages.iter().flat_map(|message| {
                    let words = message.content.split_whitespace().map(str::len);
                    let images = message.images.iter().filter_map(|one| one.image.as_ref());
                    words.chain(images.map(|image| image.source().bytes.len()))
                });
                let tokens = tokens.map(|length| u32::try_from(length).unwrap_or(u32::MAX));
                Prompt::of_tokens(tokens.collect())
            }
        };
        let tokens = prompt.tokens.len();
        if tokens >= context {
            Err(Refusal::ContextFull { tokens, context })
        } else {
            Ok(prompt)
        }
    }

    /// Returns the prompt of a conversation that was encoded as these tokens; `None` unless this model encodes it so too.
    ///
    /// # Errors
    /// `InvalidMessages` if the template was stopped: whether the model encodes the conversation so is unknown then.
    pub fn recognize(
        &self,
        tokens: &[u32],
        messages: &[Message],
        manner: Manner<'_>,
    ) -> Result<Option<Prompt>, Refusal> {
        let Self::Model(language) = self else {
            return Ok(None);
        };
        match language.render(messages, manner) {
            Ok(rendered) => Ok(language.recognize(tokens, rendered)),
            Err(error) if error.is_interruption() => Err(refusal(&error)),
            // The conversation had another template.
            Err(_) => Ok(None),
        }
    }

    /// Refuses a conversation that cannot fit whatever its tokens are, before it is encoded. Thoughts of past answers do not
    /// count, because templates leave them out.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit(&self, messages: &[Message], context: usize) -> Result<(), Refusal> {
        let said = messages
            .iter()
            .filter(|message| message.role != Role::Assistant);
        self.admit_bytes(said.map(|message| message.content.len()).sum(), context)
    }

    /// Refuses a text whose bytes cannot fit whatever its tokens are.
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

    /// Returns a decoder of tokens; `None` for the scripted engine.
    #[must_use]
    pub fn decoder(&self) -> Option<Decoder> {
        match self {
            Self::Model(language) => Some(language.decoder()),
            Self::Words => None,
        }
    }

    /// Returns the chat template of a model that has one.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        match self {
            Self::Model(language) => language.template(),
            Self::Words => None,
        }
    }

    /// Returns the text of an answer, including special tokens.
    #[must_use]
    pub fn spelled(&self, answer: &[u32]) -> String {
        match self {
            Self::Model(language) => language.spelled(answer),
            Self::Words => String::new(),
        }
    }

    /// Returns the tokens that begin and end thoughts, and whether a prompt ends within thoughts.
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

    /// Returns the text at the beginning of thoughts, which is not a thought.
    #[must_use]
    pub fn thought_heading(&self) -> String {
        match self {
            Self::Model(language) => language.words().thoughts().heading.clone(),
            Self::Words => String::new(),
        }
    }

    /// Returns the text of a token alone.
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

/// Returns the refusal of messages that were not rendered, and reports a template that was stopped.
fn refusal(error: &LanguageError) -> Refusal {
    let text = error.to_string();
    if error.is_interruption() {
        journal::template_stopped(&text);
    }
    Refusal::InvalidMessages(text)
}
