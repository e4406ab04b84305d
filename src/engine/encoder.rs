//! How conversations become tokens of the model in force. Tokens of one model mean nothing to another, so each prompt
//! remembers whose it is. It holds no weights and runs nothing.

use super::Message;
use super::codec::Codec;
use super::request::Refusal;
use super::session::Answer;
use crate::model::language::{Decoder, Prompt};

/// Encodes for one model and its context.
#[derive(Debug)]
pub struct Encoder {
    codec: Codec,
    context: usize,
    /// Counts the models of this process.
    model: u64,
}

/// A conversation as tokens, of use to one model.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub prompt: Prompt,
    model: u64,
}

impl Encoder {
    pub(super) fn new(codec: Codec, context: usize, model: u64) -> Self {
        Self {
            codec,
            context,
            model,
        }
    }

    pub(super) fn model(&self) -> u64 {
        self.model
    }

    #[must_use]
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    #[must_use]
    pub fn decoder(&self) -> Option<Decoder> {
        self.codec.decoder()
    }

    /// Refuses a conversation that cannot fit whatever its tokens are.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit(&self, messages: &[Message]) -> Result<(), Refusal> {
        self.codec.admit(messages, self.context)
    }

    /// The same for so many bytes of text.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        self.codec.admit_bytes(bytes, self.context)
    }

    /// The tokens of a conversation. `last` is the turn before, whose tokens are kept as a prefix where they are
    /// this model's and the template allows it.
    ///
    /// # Errors
    /// As `Codec::encode`.
    pub fn encode(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        thinking: Option<bool>,
    ) -> Result<Encoded, Refusal> {
        let last = last
            .filter(|(encoded, _)| encoded.model == self.model)
            .map(|(encoded, answer)| (&encoded.prompt, answer));
        let prompt = self.codec.encode(messages, last, thinking, self.context)?;
        Ok(Encoded {
            prompt,
            model: self.model,
        })
    }

    /// Whether this model's tokens are meant.
    pub(super) fn is_own(&self, encoded: &Encoded) -> bool {
        encoded.model == self.model
    }
}
