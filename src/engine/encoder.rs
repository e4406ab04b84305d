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

    /// The tokens of a conversation that may have been encoded already: while there was no model, or for the one
    /// before, it could not be.
    ///
    /// # Errors
    /// As `encode`.
    pub fn own(
        &self,
        encoded: Option<Encoded>,
        messages: &[Message],
        thinking: Option<bool>,
    ) -> Result<Encoded, Refusal> {
        match encoded.filter(|encoded| encoded.model == self.model) {
            Some(encoded) => Ok(encoded),
            None => self.encode(messages, None, thinking),
        }
    }
}
