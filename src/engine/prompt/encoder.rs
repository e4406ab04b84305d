//! Encodes conversations for the active model, and lends the guides of their answers.
//!
//! Each prompt remembers its model, because its tokens are meaningless to another one.

use std::ops::Range;
use std::sync::Arc;

use super::codec::Codec;
use super::merged_content;
use crate::engine::caller::request::{Options, Refusal};
use crate::engine::picture::picture::Picture;
use crate::engine::picture::sight::Sight;
use crate::engine::picture::viewer::{Shown, Viewer};
use crate::engine::session::answer::Answer;
use crate::guide::{self, Grammar, GrammarError, Grammars, Guide, Thoughts};
use crate::journal;
use crate::model::Message;
use crate::model::chat::ImageTexts;
use crate::model::language::Prompt;
use crate::model::{Decoder, Manner};
use crate::sampler::Partial;
use crate::tools::{Formats, Tools, Writing};

/// Encodes for one model and its context.
#[derive(Debug)]
pub struct Encoder {
    codec: Codec,
    /// `None` for the scripted engine.
    grammars: Option<Grammars>,
    context: usize,
    /// The number of this model in this process, from 1.
    model: u64,
    /// The sampling that the model recommends.
    sampling: Partial,
    /// `None` if the model sees no images.
    sight: Option<Arc<Sight>>,
}

/// The tokens of a conversation, for one model.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub prompt: Prompt,
    /// The ranges of its tokens that earlier answers generated.
    pub(crate) said: Vec<Range<usize>>,
    /// How many of its tokens the previous turn had run. Those that the cache has lost are prefilled again.
    pub(crate) past: usize,
    /// The images whose numbers its tokens have.
    pub(crate) pictures: Vec<Arc<Picture>>,
    model: u64,
    /// How the conversation was rendered, if its tokens come from a file or an old turn: their model is unknown.
    rendered: Option<Arc<Rendering>>,
}

/// A finished turn: its prompt and its answer. The next turn continues it.
pub(crate) type Last = Arc<(Encoded, Answer)>;

/// How tokens of an unknown model were rendered. Rendering again shows whether they are this model's.
#[derive(Debug)]
struct Rendering {
    /// The number of messages.
    messages: usize,
    thinking: Option<bool>,
    tools: Option<Arc<str>>,
}

impl Encoded {
    /// Returns tokens of any model that encode the first `messages` messages of a conversation.
    pub(crate) fn of_unknown_model(
        (tokens, said): (Vec<u32>, Vec<Range<usize>>),
        messages: usize,
        thinking: Option<bool>,
        tools: Option<Arc<str>>,
    ) -> Self {
        Self {
            prompt: Prompt::of_tokens(tokens),
            said,
            past: 0,
            pictures: Vec::new(),
            model: UNKNOWN,
            rendered: Some(Arc::new(Rendering {
                messages,
                thinking,
                tools,
            })),
        }
    }
}

/// The number of an unknown model.
const UNKNOWN: u64 = 0;

/// The rules for prompts and answers.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) grammar: guide::Limits,
    /// The formats in which models call tools.
    pub(crate) formats: Arc<Formats>,
    /// Finds the pictures of the user.
    pub(crate) viewer: Viewer,
}

/// The limits of an answer: a grammar, or a length of thoughts.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// `None` if only thoughts are limited.
    grammar: Option<Arc<Grammar>>,
    thoughts: Thoughts,
    limits: guide::Limits,
}

impl Bound {
    /// Whether a grammar must be compiled.
    pub(crate) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }
}

/// The result of `Encoder::lend`.
pub(crate) enum Lent {
    /// The answer has no limits.
    Free,
    Guide(Guide),
    /// The compiled grammar was evicted.
    Absent,
}

/// A prompt that is ready for the model.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) prompt: Encoded,
    /// The limits of its answer.
    pub(crate) bound: Option<Bound>,
    /// How the model writes calls, if it may call tools.
    pub(crate) writing: Option<Writing>,
}

impl Encoder {
    pub(crate) fn new(codec: Codec, context: usize, model: u64, sampling: Partial) -> Self {
        let grammars = match &codec {
            Codec::Model(language) => Some(Grammars::new(language.words())),
            Codec::Words => None,
        };
        Self {
            codec,
            grammars,
            context,
            model,
            sampling,
            sight: None,
        }
    }

    /// Returns the encoder of a model that sees images.
    pub(crate) fn with_sight(self, sight: Option<Arc<Sight>>) -> Self {
        Self { sight, ..self }
    }

    /// Returns how images become patches for the model; `None` if it sees no images.
    pub(crate) fn sight(&self) -> Option<&Arc<Sight>> {
        self.sight.as_ref()
    }

    pub(crate) fn model(&self) -> u64 {
        self.model
    }

    /// Returns the sampling that the model recommends.
    pub(crate) fn sampling(&self) -> Partial {
        self.sampling
    }

    /// Returns the most tokens of a conversation.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
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

    /// Refuses a text whose bytes cannot fit whatever its tokens are.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        self.codec.admit_bytes(bytes, self.context)
    }

    /// Returns the tokens of a conversation. The tokens of `last`, the previous turn, stay a prefix if they are this model's and
    /// the template allows it.
    pub fn encode(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        manner: Manner<'_>,
    ) -> Result<Encoded, Refusal> {
        let recognized = last.map(|(encoded, _)| self.recognized(encoded, messages, manner.images));
        let recognized = recognized.transpose()?.flatten();
        let kept = recognized.zip(last).map(|(prompt, (encoded, answer))| {
            let encoded = Encoded {
                prompt,
                ..encoded.clone()
            };
            (encoded, answer.clone())
        });
        let ran = kept.as_ref().or(last);
        let last = ran.filter(|(encoded, _)| kept.is_some() || encoded.model == self.model);
        let before = last.map(|(encoded, answer)| (&encoded.prompt, answer));
        let prompt = self.codec.encode(messages, before, manner, self.context)?;
        let said = last.map_or_else(Vec::new, |last| said(last, &prompt.tokens));
        let said = before_last(said, prompt.tokens.len());
        Ok(Encoded {
            past: ran.map_or(0, |ran| past(ran, &prompt.tokens)),
            prompt,
            said,
            pictures: Vec::new(),
            model: self.model,
            rendered: None,
        })
    }

    /// Returns the prompt of tokens of an unknown model, if this model encodes the messages the same way.
    ///
    /// # Errors
    /// As `Codec::recognize`.
    fn recognized(
        &self,
        encoded: &Encoded,
        messages: &[Message],
        images: Option<&ImageTexts>,
    ) -> Result<Option<Prompt>, Refusal> {
        let Some(rendering) = &encoded.rendered else {
            return Ok(None);
        };
        let tools = rendering.tools.as_deref();
        let tools = tools.map(|tools| serde_json::from_str(tools).unwrap_or_default());
        let manner = Manner {
            thinking: rendering.thinking,
            is_as_written: false,
            tools: tools.as_ref(),
            images,
        };
        let Some(asked) = messages.get(..rendering.messages) else {
            return Ok(None);
        };
        self.codec.recognize(&encoded.prompt.tokens, asked, manner)
    }

    /// Computes what all grammars share, which takes long with a large vocabulary.
    pub fn prepare(&self) {
        if let Some(grammars) = &self.grammars {
            grammars.prepare();
        }
    }

    /// Prepares a turn: its tokens, as `encode`, the limits of its answer, and how the model writes calls.
    pub(crate) fn prepared(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        rules: &Rules,
    ) -> Result<Prepared, Refusal> {
        let prompt = self.prompt(messages, last, options, rules)?;
        self.guided(prompt, options, rules)
    }

    /// Returns the tokens of a conversation, rendered as the options say, and how the model writes calls.
    ///
    /// # Errors
    /// As `Codec::encode`; `NotSupported` for tools that the model cannot call.
    pub(crate) fn prompt(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        rules: &Rules,
    ) -> Result<(Encoded, Option<Writing>), Refusal> {
        let tools = options.tools.as_deref();
        let writing = match tools {
            Some(_) => Some(self.writing(&rules.formats)?),
            // The template may not be able to write past calls.
            None if messages.iter().any(|message| !message.calls.is_empty()) => {
                self.writing(&rules.formats).ok()
            }
            None => None,
        };
        let template = self.codec.template().unwrap_or_default();
        let flat = merged_content::messages(messages, template, writing.as_ref());
        let offered = tools.map(|tools| serde_json::from_str(tools.given()).unwrap_or_default());
        let shown = self.show(&flat, rules)?;
        let manner = Manner {
            thinking: options.thinking,
            is_as_written: options.is_as_written,
            tools: offered.as_ref(),
            images: shown.as_ref().map(|shown| &shown.texts),
        };
        let mut encoded = self.encode(&flat, last, manner)?;
        encoded.pictures = shown.map_or_else(Vec::new, |shown| shown.pictures);
        Ok((encoded, writing))
    }

    /// Returns what stands for the images of messages, if there are any.
    fn show(&self, messages: &[Message], rules: &Rules) -> Result<Option<Shown>, Refusal> {
        let images = messages.iter().flat_map(|message| &message.images);
        let mut received = images.filter(|image| image.image.is_some());
        if received.next().is_none() {
            return Ok(None);
        }
        match (&self.sight, &self.codec) {
            (Some(sight), _) => rules.viewer.show(messages, sight).map(Some),
            // The scripted engine sees nothing of them.
            (None, Codec::Words) => Ok(None),
            (None, Codec::Model(_)) => Err(Refusal::NotSupported(
                "the conversation has images, and the model takes none: it has no vision tower; rewind or clear the session, or \
                 load another model (model.path)"
                    .into(),
            )),
        }
    }

    /// Returns the common prefix of the prompts of all conversations whose last message begins like this one's.
    pub(crate) fn beginning(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        rules: &Rules,
    ) -> Result<Prepared, Refusal> {
        let mut longer = messages.to_vec();
        if let Some(said) = longer.last_mut() {
            said.content += "\n.";
        }
        let (mut prompt, _) = self.prompt(messages, last, options, rules)?;
        let (other, _) = self.prompt(&longer, last, options, rules)?;
        let tokens = &mut prompt.prompt.tokens;
        let equal = tokens.iter().zip(&other.prompt.tokens);
        let equal = equal.take_while(|(a, b)| a == b).count();
        // A prompt has at least one token.
        tokens.truncate(equal.max(1));
        prompt.past = prompt.past.min(tokens.len());
        prompt.pictures.retain(|picture| picture.is_in(tokens));
        prompt.said = before_last(prompt.said, prompt.prompt.tokens.len());
        Ok(Prepared {
            prompt,
            bound: None,
            writing: None,
        })
    }

    /// Returns a prepared turn with the limits of its answer, whose grammar is not compiled yet.
    ///
    /// # Errors
    /// `NotSupported` for a grammar without a vocabulary.
    pub(crate) fn guided(
        &self,
        (prompt, writing): (Encoded, Option<Writing>),
        options: &Options,
        rules: &Rules,
    ) -> Result<Prepared, Refusal> {
        let tools = options.tools.as_deref();
        let writing = writing.filter(|_| tools.is_some());
        let calls = tools.zip(writing.as_ref());
        let bound = self.bound(options, calls, rules.grammar)?;
        // Without permission to call, text that looks like a call is text.
        let called = tools.filter(|tools| tools.choice() != "none");
        let writing = writing
            .zip(called)
            .map(|(writing, tools)| writing.of(tools));
        Ok(Prepared {
            prompt,
            bound,
            writing,
        })
    }

    /// Returns how the model writes calls of tools.
    ///
    /// # Errors
    /// `NotSupported` if it cannot, or no format is known for it.
    pub(crate) fn writing(&self, formats: &Formats) -> Result<Writing, Refusal> {
        let Codec::Model(language) = &self.codec else {
            let why = "the scripted engine calls no tools";
            return Err(Refusal::NotSupported(why.into()));
        };
        let template = language.template().unwrap_or_default();
        let format = formats.of(template).ok_or_else(|| {
            Refusal::NotSupported(if template.contains("tools") {
                format!(
                    "no format of tool calls is known for the chat template of this model (known: {}); put a file for it into \
                     the folder of model.tool_formats, or use a model such as Qwen3",
                    formats.names()
                )
            } else {
                "the chat template of this model takes no tools; use a model that was trained for them, such as Qwen3, or leave \
                 the tools out"
                    .into()
            })
        })?;
        Ok(Writing::new(format.clone(), language.words()))
    }

    /// Returns the limits of an answer, if it has any.
    fn bound(
        &self,
        options: &Options,
        calls: Option<(&Tools, &Writing)>,
        limits: guide::Limits,
    ) -> Result<Option<Bound>, Refusal> {
        let called = calls.map(|(tools, writing)| Grammar::Tools {
            lark: writing.grammar(tools),
            arguments: writing.arguments(tools),
            lenient: tools.is_optional() || options.schema_lenient,
            bytes: tools.given().len(),
            trigger: writing.spelled_trigger().map(Box::from),
            syntax: writing.syntax().map(Box::new),
        });
        let grammar = called.or_else(|| options.grammar.clone());
        if grammar.is_none() && options.thinking_tokens.is_none() {
            return Ok(None);
        }
        self.grammars()?;
        Ok(Some(Bound {
            grammar: grammar.map(Arc::new),
            thoughts: Thoughts {
                allowed: options.thinking != Some(false),
                most: options.thinking_tokens,
            },
            limits,
        }))
    }

    fn grammars(&self) -> Result<&Grammars, Refusal> {
        self.grammars.as_ref().ok_or_else(|| {
            let why = "the scripted engine has no vocabulary to bound";
            Refusal::NotSupported(why.into())
        })
    }

    /// Returns whether the grammar of a user's answer is compiled, or there is none. Does not wait.
    ///
    /// # Errors
    /// `InvalidGrammar` if it has exceeded a bound before.
    pub(crate) fn has_compiled(&self, user: u32, bound: &Bound) -> Result<bool, Refusal> {
        match (&self.grammars, &bound.grammar) {
            (Some(grammars), Some(grammar)) => {
                Ok(grammars.is_compiled(user, grammar, bound.limits)?)
            }
            _ => Ok(true),
        }
    }

    /// Compiles the grammar of a user's answer, unless it is compiled. Waits for that, as long as `wanted` holds.
    ///
    /// # Errors
    /// `InvalidGrammar`, which names the tool of `tools` that it is of.
    pub(crate) fn check(
        &self,
        user: u32,
        bound: &Bound,
        tools: Option<&Tools>,
        wanted: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        let Some(grammar) = &bound.grammar else {
            return Ok(());
        };
        let grammars = self.grammars()?;
        let checked = grammars.check(user, grammar, bound.limits, &wanted);
        let error = match (checked, tools) {
            (Ok(()), _) => return Ok(()),
            (Err(error @ GrammarError::Wrong { .. }), Some(tools)) => {
                let named = |(name, schema): (&str, &str)| (name.to_owned(), schema.to_owned());
                let schemas = tools.schemas().take(MOST_SEARCHED).map(named).collect();
                let found = grammars.find(schemas, grammar.is_lenient(), bound.limits, wanted);
                found.map_or(error, |(name, why)| GrammarError::Wrong {
                    option: "tools",
                    why: format!("the parameters of {name:?}: {why}"),
                })
            }
            (Err(error), _) => error,
        };
        if let GrammarError::Stopped { .. } | GrammarError::NoProcess { .. } = error {
            journal::grammar_stopped(user, &error.to_string());
        }
        Err(refusal(error))
    }

    /// Lends the guide of a user's answer to `prompt`, without waiting.
    ///
    /// # Errors
    /// `InvalidGrammar` if no process can be started.
    pub(crate) fn lend(
        &self,
        user: u32,
        bound: Option<&Bound>,
        prompt: &[u32],
    ) -> Result<Lent, Refusal> {
        let Some(bound) = bound else {
            return Ok(Lent::Free);
        };
        let grammars = self.grammars()?;
        let Some(grammar) = &bound.grammar else {
            let guide = grammars.limit_thoughts(prompt, bound.thoughts);
            return Ok(guide.map_or(Lent::Free, Lent::Guide));
        };
        let lent = grammars.lend(user, grammar, bound.limits, prompt, bound.thoughts);
        let lent = lent.map_err(refusal)?;
        Ok(lent.map_or(Lent::Absent, Lent::Guide))
    }

    /// Whether the tokens are this model's.
    pub(crate) fn is_own(&self, encoded: &Encoded) -> bool {
        encoded.model == self.model
    }
}

/// Returns the ranges of a prompt that earlier answers generated, as far as the prompt has the same tokens. Text that is
/// rendered again, such as an answer without its thoughts, is prefilled like any other.
fn said(last @ (encoded, _): &(Encoded, Answer), tokens: &[u32]) -> Vec<Range<usize>> {
    let first = encoded.prompt.tokens.len();
    if !tokens.starts_with(&encoded.prompt.tokens) {
        return Vec::new();
    }
    let mut said = encoded.said.clone();
    let again = said_again(last, tokens);
    if again > 0 {
        said.push(first..first + again);
    }
    said
}

/// Returns how many tokens of the previous answer steps have run, if the prompt contains that whole turn.
fn said_again((encoded, answer): &(Encoded, Answer), tokens: &[u32]) -> usize {
    let after = tokens.strip_prefix(encoded.prompt.tokens.as_slice());
    let again = after.zip(answer.tokens.as_deref());
    let again = again.is_some_and(|(after, answer)| after.starts_with(answer));
    if again { answer.said } else { 0 }
}

/// Returns how many first tokens of a prompt the previous turn had run in the same way.
fn past(last @ (encoded, _): &(Encoded, Answer), tokens: &[u32]) -> usize {
    let pairs = encoded.prompt.tokens.iter().zip(tokens);
    let read = pairs.take_while(|(before, now)| before == now).count();
    read + said_again(last, tokens)
}

/// Removes the last token from the ranges: that token always runs, because the next one is chosen from its logits.
fn before_last(said: Vec<Range<usize>>, tokens: usize) -> Vec<Range<usize>> {
    let most = tokens.saturating_sub(1);
    let cut = said
        .into_iter()
        .map(|range| range.start..range.end.min(most));
    cut.filter(|range| !range.is_empty()).collect()
}

/// Returns the refusal for a grammar. A process that cannot be started is not the caller's fault.
fn refusal(error: GrammarError) -> Refusal {
    match error {
        GrammarError::NoProcess { .. } => Refusal::NotReady(error.to_string()),
        error => error.into(),
    }
}

/// The most tools whose schemas are searched for the invalid one.
const MOST_SEARCHED: usize = 256;

#[cfg(test)]
impl Encoder {
    /// Returns tokens of this model that show images.
    pub(crate) fn encoded(&self, tokens: Vec<u32>, pictures: Vec<Arc<Picture>>) -> Encoded {
        Encoded {
            model: self.model,
            pictures,
            ..Encoded::of_unknown_model((tokens, Vec::new()), 0, None, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt that ends within or with a generated range still has a token to prefill.
    #[test]
    fn the_last_token_of_a_prompt_is_read() {
        let said = || vec![2..5, 7..9];
        assert_eq!(before_last(said(), 12), said());
        assert_eq!(before_last(said(), 9), vec![2..5, 7..8]);
        assert_eq!(before_last(said(), 6), before_last(said(), 7));
        assert_eq!(before_last(said(), 4).last(), Some(&(2..3)));
        assert!(before_last(said(), 0).is_empty());
    }
}
