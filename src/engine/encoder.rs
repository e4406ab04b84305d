//! How conversations become tokens of the model in force. Tokens of one model mean nothing to another, so each prompt
//! remembers whose it is. It holds no weights and runs nothing.

use super::Message;
use super::codec::Codec;
use super::request::{Options, Refusal};
use super::session::Answer;
use crate::guide::{self, Grammars, Guide};
use crate::model::language::{Decoder, Prompt};

/// Encodes for one model and its context.
#[derive(Debug)]
pub struct Encoder {
    codec: Codec,
    /// `None` for the scripted engine, which has no vocabulary.
    grammars: Option<Grammars>,
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
        let grammars = match &codec {
            Codec::Model(language) => Some(Grammars::new(language.words())),
            Codec::Words => None,
        };
        Self {
            codec,
            grammars,
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

    /// Makes what the grammars of all answers share, which takes long with a large vocabulary.
    pub fn prepare(&self) {
        if let Some(grammars) = &self.grammars {
            grammars.prepare();
        }
    }

    /// All that a turn needs: the tokens of its conversation, as `encode`, and what its answer goes along with.
    ///
    /// # Errors
    /// As `Codec::encode`; `InvalidGrammar`; `NotSupported` for a grammar without a vocabulary.
    pub(super) fn prepared(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        limits: guide::Limits,
    ) -> Result<(Encoded, Option<Guide>), Refusal> {
        let prompt = self.encode(messages, last, options.thinking)?;
        let guide = self.guide(options, limits, &prompt)?;
        Ok((prompt, guide))
    }

    /// What an answer goes along with, if its options have a grammar.
    fn guide(
        &self,
        options: &Options,
        limits: guide::Limits,
        prompt: &Encoded,
    ) -> Result<Option<Guide>, Refusal> {
        let Some(grammar) = &options.grammar else {
            return Ok(None);
        };
        let grammars = self.grammars.as_ref().ok_or_else(|| {
            Refusal::NotSupported("the scripted engine has no vocabulary to bound".into())
        })?;
        let thinks = options.thinking != Some(false);
        let tokens = &prompt.prompt.tokens;
        Ok(Some(grammars.guide(grammar, limits, tokens, thinks)?))
    }

    /// Whether this model's tokens are meant.
    pub(super) fn is_own(&self, encoded: &Encoded) -> bool {
        encoded.model == self.model
    }
}
