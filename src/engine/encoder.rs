//! How conversations become tokens of the model in force. Tokens of one model mean nothing to another, so each prompt
//! remembers whose it is. It holds no weights and runs nothing.

use std::ops::Range;
use std::sync::Arc;

use super::codec::Codec;
use super::request::{Options, Refusal};
use super::{Answer, Message, flat};
use crate::guide::{self, Grammar, GrammarError, Grammars, Guide, Thoughts};
use crate::journal;
use crate::model::language::{Decoder, Manner, Prompt};
use crate::sampler::Partial;
use crate::tools::{Formats, Tools, Writing};

/// Encodes for one model and its context.
#[derive(Debug)]
pub struct Encoder {
    codec: Codec,
    /// `None` for the scripted engine, which has no vocabulary.
    grammars: Option<Grammars>,
    context: usize,
    /// Counts the models of this process.
    model: u64,
    /// The sampling that the model recommends.
    sampling: Partial,
}

/// A conversation as tokens, of use to one model.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub prompt: Prompt,
    /// The model has said these of its tokens in this conversation.
    pub(super) said: Vec<Range<usize>>,
    /// So many of its tokens had been run at the end of the turn before: what of them is not in the cache any more is read
    /// again.
    pub(super) past: usize,
    model: u64,
    /// Where it comes from a file, or from long ago: then it has only its tokens.
    kept: Option<Arc<Kept>>,
}

/// A turn that has ended, from which the next one goes on: what was asked, and what was answered.
pub(super) type Last = Arc<(Encoded, Answer)>;

/// What tokens of which no more is known were rendered from: whether they are this model's is found by doing it again.
#[derive(Debug)]
struct Kept {
    /// So many messages of the conversation.
    messages: usize,
    thinking: Option<bool>,
    tools: Option<Arc<str>>,
}

impl Encoded {
    /// Tokens that were kept, which may be of any model: those of the first so many messages, and which of them were said.
    pub(super) fn kept(
        (tokens, said): (Vec<u32>, Vec<Range<usize>>),
        messages: usize,
        thinking: Option<bool>,
        tools: Option<Arc<str>>,
    ) -> Self {
        Self {
            prompt: Prompt::of_tokens(tokens),
            said,
            past: 0,
            model: NOBODYS,
            kept: Some(Arc::new(Kept {
                messages,
                thinking,
                tools,
            })),
        }
    }
}

/// Models count from 1.
const NOBODYS: u64 = 0;

/// What prompts and answers are held to.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) grammar: guide::Limits,
    /// Models call tools in these formats.
    pub(super) formats: Arc<Formats>,
}

/// What bounds an answer.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// `None` if only thoughts are bounded.
    grammar: Option<Arc<Grammar>>,
    thoughts: Thoughts,
    limits: guide::Limits,
}

impl Bound {
    /// Whether a grammar must be compiled.
    pub(super) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }
}

/// What a turn has of what bounds it.
pub(super) enum Lent {
    /// Nothing, for a turn that nothing bounds.
    Free,
    Guide(Guide),
    /// Its grammar is not compiled any more.
    Absent,
}

/// All that a turn needs of the model.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) prompt: Encoded,
    /// What bounds its answer.
    pub(super) bound: Option<Bound>,
    /// How it calls, if it may.
    pub(super) writing: Option<Writing>,
}

impl Encoder {
    pub(super) fn new(codec: Codec, context: usize, model: u64, sampling: Partial) -> Self {
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
        }
    }

    pub(super) fn model(&self) -> u64 {
        self.model
    }

    /// The sampling that the model recommends.
    pub(super) fn sampling(&self) -> Partial {
        self.sampling
    }

    /// Tokens that a conversation may take.
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

    /// The same for so many bytes of text.
    ///
    /// # Errors
    /// `PromptBytes`.
    pub fn admit_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        self.codec.admit_bytes(bytes, self.context)
    }

    /// The tokens of a conversation. `last` is the turn before, whose tokens are kept as a prefix where they are
    /// this model's and the template allows it.
    pub fn encode(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        manner: Manner<'_>,
    ) -> Result<Encoded, Refusal> {
        let ran = last;
        let kept = last.and_then(|(encoded, _)| self.recognized(encoded, messages));
        let last = last.filter(|(encoded, _)| kept.is_some() || encoded.model == self.model);
        let before =
            last.map(|(encoded, answer)| (kept.as_ref().unwrap_or(&encoded.prompt), answer));
        let prompt = self.codec.encode(messages, before, manner, self.context)?;
        let said = last.map_or_else(Vec::new, |last| said(last, &prompt.tokens));
        let said = before_last(said, prompt.tokens.len());
        Ok(Encoded {
            past: ran.map_or(0, |ran| past(ran, &prompt.tokens)),
            prompt,
            said,
            model: self.model,
            kept: None,
        })
    }

    /// The prompt whose tokens were kept, if they say to this model what its messages say.
    fn recognized(&self, encoded: &Encoded, messages: &[Message]) -> Option<Prompt> {
        let kept = encoded.kept.as_ref()?;
        let tools = kept.tools.as_deref();
        let tools = tools.map(|tools| serde_json::from_str(tools).unwrap_or_default());
        let manner = Manner {
            thinking: kept.thinking,
            tools: tools.as_ref(),
        };
        let asked = messages.get(..kept.messages)?;
        self.codec.recognize(&encoded.prompt.tokens, asked, manner)
    }

    /// Makes what the grammars of all answers share, which takes long with a large vocabulary.
    pub fn prepare(&self) {
        if let Some(grammars) = &self.grammars {
            grammars.prepare();
        }
    }

    /// All that a turn needs: the tokens of its conversation, as `encode`, what its answer goes along with, and how it calls.
    pub(super) fn prepared(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        rules: &Rules,
    ) -> Result<Prepared, Refusal> {
        let prompt = self.prompt(messages, last, options, rules)?;
        self.guided(prompt, options, rules)
    }

    /// The tokens of a conversation as the options want it rendered, and how the model calls.
    ///
    /// # Errors
    /// As `Codec::encode`; `NotSupported` for tools that the model cannot call.
    pub(super) fn prompt(
        &self,
        messages: &[Message],
        last: Option<&(Encoded, Answer)>,
        options: &Options,
        rules: &Rules,
    ) -> Result<(Encoded, Option<Writing>), Refusal> {
        let tools = options.tools.as_deref();
        let writing = match tools {
            Some(_) => Some(self.writing(&rules.formats)?),
            // Past calls may have to be written for a template that cannot.
            None if messages.iter().any(|message| !message.calls.is_empty()) => {
                self.writing(&rules.formats).ok()
            }
            None => None,
        };
        let template = self.codec.template().unwrap_or_default();
        let flat = flat::messages(messages, template, writing.as_ref());
        let offered = tools.map(|tools| serde_json::from_str(tools.given()).unwrap_or_default());
        let manner = Manner {
            thinking: options.thinking,
            tools: offered.as_ref(),
        };
        Ok((self.encode(&flat, last, manner)?, writing))
    }

    /// What the prompts have in common of all conversations whose last message begins like this one's.
    pub(super) fn beginning(
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
        // One at least, so that there is something to read.
        tokens.truncate(equal.max(1));
        prompt.past = prompt.past.min(tokens.len());
        prompt.said = before_last(prompt.said, prompt.prompt.tokens.len());
        Ok(Prepared {
            prompt,
            bound: None,
            writing: None,
        })
    }

    /// The same with what bounds the answer; its grammar is not compiled by this.
    ///
    /// # Errors
    /// `NotSupported` for a grammar without a vocabulary.
    pub(super) fn guided(
        &self,
        (prompt, writing): (Encoded, Option<Writing>),
        options: &Options,
        rules: &Rules,
    ) -> Result<Prepared, Refusal> {
        let tools = options.tools.as_deref();
        let writing = writing.filter(|_| tools.is_some());
        let calls = tools.zip(writing.as_ref());
        let bound = self.bound(options, calls, rules.grammar)?;
        // Who may not call says nothing that is a call, however it begins.
        let calls = |tools: &Tools| tools.choice() != "none";
        let writing = writing.filter(|_| tools.is_some_and(calls));
        Ok(Prepared {
            prompt,
            bound,
            writing,
        })
    }

    /// How the model calls tools.
    ///
    /// # Errors
    /// `NotSupported` if it cannot, or no format is known for it.
    pub(super) fn writing(&self, formats: &Formats) -> Result<Writing, Refusal> {
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

    /// Returns what bounds an answer, if anything does.
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
    pub(super) fn has_compiled(&self, user: u32, bound: &Bound) -> Result<bool, Refusal> {
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
    pub(super) fn check(
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
                let schemas = tools.schemas().take(LOOKED_AT).map(named).collect();
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

    /// Lends what bounds a user's answer to `prompt`, without waiting.
    ///
    /// # Errors
    /// `InvalidGrammar` if no process can be started.
    pub(super) fn lend(
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

    /// Whether this model's tokens are meant.
    pub(super) fn is_own(&self, encoded: &Encoded) -> bool {
        encoded.model == self.model
    }
}

/// Which tokens of a prompt were said in the turn before, and in those before that: as far as they are there again. What is
/// rendered anew, such as an answer without its thoughts, is read like any other text.
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

/// How many tokens of the answer before steps have run, if a prompt has that whole turn again.
fn said_again((encoded, answer): &(Encoded, Answer), tokens: &[u32]) -> usize {
    let after = tokens.strip_prefix(encoded.prompt.tokens.as_slice());
    let again = after.zip(answer.tokens.as_deref());
    let again = again.is_some_and(|(after, answer)| after.starts_with(answer));
    if again { answer.said } else { 0 }
}

/// How many tokens of a prompt, from the first, the turn before had run as they are to run now.
fn past(last @ (encoded, _): &(Encoded, Answer), tokens: &[u32]) -> usize {
    let pairs = encoded.prompt.tokens.iter().zip(tokens);
    let read = pairs.take_while(|(before, now)| before == now).count();
    read + said_again(last, tokens)
}

/// The same without the last of so many tokens: that one is always read, so that something is chosen after it.
fn before_last(said: Vec<Range<usize>>, tokens: usize) -> Vec<Range<usize>> {
    let most = tokens.saturating_sub(1);
    let cut = said
        .into_iter()
        .map(|range| range.start..range.end.min(most));
    cut.filter(|range| !range.is_empty()).collect()
}

/// A process that cannot be started is no fault of the caller's grammar.
fn refusal(error: GrammarError) -> Refusal {
    match error {
        GrammarError::NoProcess { .. } => Refusal::NotReady(error.to_string()),
        error => error.into(),
    }
}

/// Tools whose schemas are searched for the one that is wrong.
const LOOKED_AT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt that is cut within what was said, and one that ends with it, still have a token to read.
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
