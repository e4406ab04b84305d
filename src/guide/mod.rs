//! What may come next: an answer that must fit a schema, a regular expression or a grammar.
//!
//! A `Grammar` is what a caller asks for. `Grammars` compiles it for one model's vocabulary (with llguidance), and a `Guide`
//! goes along with one answer: it is told each token, and says which may follow, or which must. It chooses nothing, and it
//! knows nothing of conversations, devices or threads.

mod compile;
mod grammar;
mod room;
mod vocabulary;

use std::collections::VecDeque;
use std::fmt;

use llguidance::Matcher;
use llguidance::api::StopReason;

pub use compile::{Grammars, Limits};
pub use grammar::{Grammar, GrammarError, spaced};

use crate::sampler::Mask;

/// What may follow the tokens of an answer so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Anything: nothing guides the model, at least for now.
    Anything,
    /// One of these.
    Allowed(Mask),
    /// These, one after the other, tokenized as the model's own tokenizer does.
    Forced(Vec<u32>),
    /// Nothing: the answer is whole.
    Nothing,
}

/// Where an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its first token may begin thoughts.
    Begins,
    /// What it says is no answer yet.
    Thinks,
    Answers,
}

/// Why an answer cannot go on under its guide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuideError {
    #[error(
        "the grammar became too complex in the middle of the answer ({0}); make it smaller, or bound what repeats in it"
    )]
    TooComplex(String),
    #[error(
        "the answer cannot go on in its grammar ({0}); make it simpler, or ask for what the model's vocabulary can say"
    )]
    NothingFollows(String),
}

/// Whether an answer may begin with thoughts, and of how many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thoughts {
    pub allowed: bool,
    /// Then they are ended.
    pub most: Option<usize>,
}

impl Thoughts {
    pub const NONE: Self = Self {
        allowed: false,
        most: None,
    };
}

/// Goes along with one answer.
#[derive(Clone)]
pub struct Guide {
    /// `None` if only thoughts are bounded.
    matcher: Option<Matcher>,
    thinking: Option<Thinking>,
    stage: Stage,
    /// Tokens that end thoughts, or set the answer apart from them. No grammar knows of them.
    closing: VecDeque<u32>,
    /// Tokens that must come next. Found once: to find the rest of them anew after each could cut them otherwise.
    forced: VecDeque<u32>,
}

/// How a model thinks.
#[derive(Clone, Debug)]
struct Thinking {
    begin: u32,
    end: u32,
    /// What ends thoughts that are too long: `end` is among it.
    close: Vec<u32>,
    /// What comes between thoughts and answer.
    apart: Vec<u32>,
    /// What may be thought where an answer must follow: text, and what ends thoughts.
    may: Mask,
    /// Tokens that may still be thought.
    left: Option<usize>,
}

impl Guide {
    fn new(matcher: Option<Matcher>, thinking: Option<Thinking>, stage: Stage) -> Self {
        Self {
            matcher,
            thinking,
            stage,
            closing: VecDeque::new(),
            forced: VecDeque::new(),
        }
    }

    /// A token of the answer has come.
    ///
    /// # Errors
    /// If it does not fit, which no token does that `follows` allowed, or the grammar becomes too complex.
    pub fn take(&mut self, token: u32) -> Result<(), GuideError> {
        let closes = self.closing.front() == Some(&token);
        if closes {
            self.closing.pop_front();
        }
        match (&mut self.thinking, self.stage) {
            (Some(thinking), Stage::Begins) if token == thinking.begin => {
                self.stage = Stage::Thinks;
                return Ok(());
            }
            (Some(thinking), Stage::Thinks) => {
                thinking.left = thinking.left.map(|left| left.saturating_sub(1));
                if token == thinking.end {
                    self.stage = Stage::Answers;
                    if !closes && self.matcher.is_some() {
                        self.closing = thinking.apart.clone().into();
                    }
                }
                return Ok(());
            }
            _ => self.stage = Stage::Answers,
        }
        let Some(matcher) = self.matcher.as_mut().filter(|_| !closes) else {
            return Ok(());
        };
        self.forced.pop_front();
        let consumed = matcher.consume_token(token);
        consumed.map_err(|_| self.failed())
    }

    /// What may follow.
    ///
    /// # Errors
    /// If nothing can, though the answer is not whole, or the grammar becomes too complex.
    pub fn follows(&mut self) -> Result<Next, GuideError> {
        if let Some(thinking) = &self.thinking
            && self.stage == Stage::Thinks
            && thinking.left == Some(0)
            && self.closing.is_empty()
        {
            self.closing = thinking.close.clone().into();
        }
        if !self.closing.is_empty() {
            return Ok(Next::Forced(self.closing.iter().copied().collect()));
        }
        if self.is_over() {
            return Ok(Next::Nothing);
        }
        let Some(matcher) = &mut self.matcher else {
            return Ok(Next::Anything);
        };
        if let Some(thinking) = self
            .thinking
            .as_ref()
            .filter(|_| self.stage == Stage::Thinks)
        {
            return Ok(Next::Allowed(thinking.may.clone()));
        }
        if matcher.is_stopped() {
            return Err(self.failed());
        }
        let may_think = self.stage == Stage::Begins;
        if self.forced.is_empty() && !may_think {
            self.forced = matcher.compute_ff_tokens().into();
        }
        if !self.forced.is_empty() {
            return Ok(Next::Forced(self.forced.iter().copied().collect()));
        }
        let Ok(mut mask) = matcher.compute_mask() else {
            return Err(self.failed());
        };
        if let Some(thinking) = self.thinking.as_ref().filter(|_| may_think) {
            mask.allow_token(thinking.begin);
        }
        Ok(Next::Allowed(Mask::new(mask.as_slice().to_vec())))
    }

    /// Whether the answer is whole, and nothing may follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let answers = self.stage == Stage::Answers && self.closing.is_empty();
        let over = |matcher: &Matcher| matcher.is_stopped() && matcher.stop_reason().is_ok();
        answers && self.matcher.as_ref().is_some_and(over)
    }

    /// How many tokens come between thoughts and answer.
    #[must_use]
    pub fn apart(&self) -> usize {
        let thinking = self.thinking.as_ref().filter(|_| self.matcher.is_some());
        thinking.map_or(0, |thinking| thinking.apart.len())
    }

    /// How many tokens must come, as far as `follows` has told.
    #[must_use]
    pub fn forced(&self) -> usize {
        self.closing.len() + self.forced.len()
    }

    /// Takes at most `most` of the tokens that must come, as far as `follows` has told.
    pub fn force(&mut self, most: usize) -> Result<Vec<u32>, GuideError> {
        // What closes is known first, and what follows it only then.
        let next = if self.closing.is_empty() {
            &self.forced
        } else {
            &self.closing
        };
        let tokens: Vec<_> = next.iter().copied().take(most).collect();
        tokens.iter().try_for_each(|token| self.take(*token))?;
        Ok(tokens)
    }

    /// The error's own text may hold the grammar and the answer, neither of which is for the journal.
    fn failed(&self) -> GuideError {
        let reason = self
            .matcher
            .as_ref()
            .map_or(StopReason::InternalError, Matcher::stop_reason);
        let text = reason.to_string();
        match reason {
            StopReason::LexerTooComplex | StopReason::ParserTooComplex => {
                GuideError::TooComplex(text)
            }
            _ => GuideError::NothingFollows(text),
        }
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guide")
            .field("stage", &self.stage)
            .field("forced", &self.forced)
            .finish_non_exhaustive()
    }
}
