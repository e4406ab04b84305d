//! What may come next: an answer that must fit a schema, a regular expression or a grammar.
//!
//! A `Grammar` is what a caller asks for. `Grammars` compiles it for one model's vocabulary (with llguidance), and a `Guide`
//! goes along with one answer: it is told each token, and says which may follow, or which must. It chooses nothing, and it
//! knows nothing of conversations, devices or threads.

mod compile;
mod grammar;
mod kept;
mod numbers;
mod place;
mod room;
mod vocabulary;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;

pub use compile::{Grammars, Limits};
pub use grammar::{Grammar, GrammarError, spaced};

use crate::sampler::Mask;
use kept::Lesson;
use numbers::Numbers;

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
    TooComplex(&'static str),
    #[error(
        "the answer cannot go on in its grammar; make it simpler, or ask for what the model's vocabulary can say"
    )]
    NothingFollows,
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
    /// What it finds out, for those that come after it.
    lesson: Option<Arc<Lesson>>,
    /// `None` if it says no JSON.
    numbers: Option<Numbers>,
    thinking: Option<Thinking>,
    stage: Stage,
    /// Tokens that end thoughts, or set the answer apart from them. No grammar knows of them.
    closing: VecDeque<u32>,
    /// Tokens that must come next. Found once: to find the rest of them anew after each could cut them otherwise.
    forced: VecDeque<u32>,
    spent: Spent,
    /// Why it cannot go on.
    failed: Option<GuideError>,
}

/// What an answer's masks have cost so far: much of it stays in memory as long as the answer lasts.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Nodes of regular expressions.
    nodes: u64,
    /// Items of the parser.
    items: usize,
}

/// What those of one answer may cost, some tens of MiB: a long one of a large schema takes a tenth of it.
const MOST_NODES: u64 = 500_000;
const MOST_ITEMS: usize = 4_000_000;

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
            lesson: None,
            numbers: None,
            thinking,
            stage,
            closing: VecDeque::new(),
            forced: VecDeque::new(),
            spent: Spent::default(),
            failed: None,
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
        if let Some(numbers) = &mut self.numbers {
            numbers.take(token);
        }
        let consumed = matcher.consume_token(token);
        consumed.map_err(|why| self.fail(&why.to_string()))
    }

    /// What may follow.
    ///
    /// # Errors
    /// If nothing can, though the answer is not whole, or the grammar becomes too complex.
    pub fn follows(&mut self) -> Result<Next, GuideError> {
        match self.follows_at_once()? {
            Some(next) => Ok(next),
            None => self.allowed().map(Next::Allowed),
        }
    }

    /// What may follow, where that can be known without a look at the vocabulary; `None`: `allowed` has it.
    pub fn follows_at_once(&mut self) -> Result<Option<Next>, GuideError> {
        if let Some(thinking) = &self.thinking
            && self.stage == Stage::Thinks
            && thinking.left == Some(0)
            && self.closing.is_empty()
        {
            self.closing = thinking.close.clone().into();
        }
        if !self.closing.is_empty() {
            let closing = self.closing.iter().copied().collect();
            return Ok(Some(Next::Forced(closing)));
        }
        if self.is_over() {
            return Ok(Some(Next::Nothing));
        }
        let Some(matcher) = &mut self.matcher else {
            return Ok(Some(Next::Anything));
        };
        if let Some(thinking) = self
            .thinking
            .as_ref()
            .filter(|_| self.stage == Stage::Thinks)
        {
            return Ok(Some(Next::Allowed(thinking.may.clone())));
        }
        if matcher.is_stopped() {
            let why = matcher.get_error().unwrap_or_default();
            return Err(self.fail(&why));
        }
        if self.forced.is_empty() && self.stage != Stage::Begins {
            self.forced = matcher.compute_ff_tokens().into();
            if let Some(why) = matcher.get_error() {
                return Err(self.fail(&why));
            }
        }
        if !self.forced.is_empty() {
            let forced = self.forced.iter().copied().collect();
            return Ok(Some(Next::Forced(forced)));
        }
        Ok(None)
    }

    /// The tokens that may follow, where `follows_at_once` does not know.
    pub fn allowed(&mut self) -> Result<Mask, GuideError> {
        let Some(matcher) = &mut self.matcher else {
            return Err(self.fail("nothing bounds it"));
        };
        let mask = matcher.compute_mask();
        if let Ok(step) = matcher.last_step_stats() {
            // The first tells what compiling took, too.
            self.spent.nodes += step.lexer_cost.min(compile::MASK_NODES);
            self.spent.items += step.all_items;
        }
        let mut mask = mask.map_err(|why| self.fail(&why.to_string()))?;
        let Spent { nodes, items } = self.spent;
        if nodes > MOST_NODES || items > MOST_ITEMS {
            return Err(self.fail(TOO_MUCH));
        }
        if let Some(thinking) = self
            .thinking
            .as_ref()
            .filter(|_| self.stage == Stage::Begins)
        {
            mask.allow_token(thinking.begin);
        }
        if let Some(numbers) = &self.numbers {
            numbers.bound(&mut mask);
        }
        Ok(Mask::new(mask.as_slice().to_vec()))
    }

    /// Why it cannot go on, if so.
    #[must_use]
    pub const fn error(&self) -> Option<&GuideError> {
        self.failed.as_ref()
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

    /// The error's own text may hold the grammar and the answer, neither of which is for the journal: it is only looked at.
    fn fail(&mut self, why: &str) -> GuideError {
        let complex = COMPLEX.iter().find(|(words, _)| why.contains(words));
        let error = complex.map_or(GuideError::NothingFollows, |(_, what)| {
            GuideError::TooComplex(what)
        });
        self.failed = Some(error.clone());
        if let Some(lesson) = &self.lesson {
            lesson.spoil();
        }
        error
    }
}

/// What is in the texts of errors, llguidance's and ours, about what takes too much, and what that is.
const COMPLEX: [(&str, &str); 5] = [
    (
        "too many expressions",
        "a regular expression takes too many steps",
    ),
    (
        "too many states",
        "a regular expression has too many states",
    ),
    ("oo many items", "a token can be read in too many ways"),
    ("items; max is", "the answer can be read in too many ways"),
    (TOO_MUCH, TOO_MUCH),
];
const TOO_MUCH: &str = "what may follow takes too much memory";

impl fmt::Debug for Guide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guide")
            .field("stage", &self.stage)
            .field("forced", &self.forced)
            .finish_non_exhaustive()
    }
}
