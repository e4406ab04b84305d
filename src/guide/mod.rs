//! Guides restrict the tokens of an answer to a schema, a regular expression or a grammar. `Grammars` compiles a
//! `Grammar` for one vocabulary in a process of its own (`keeper`, `inside`), and a `Guide` follows one answer.
//! Not here: choosing tokens, conversations and devices.

mod frame;
mod grammar;
mod grammars;
mod guesses;
mod guide_error;
mod inside;
mod keeper;
mod limits;
mod matching;
mod schema;
mod shelf;
pub mod syntax;
mod table;
mod task;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

pub use grammar::{Grammar, GrammarError};
pub use grammars::Grammars;
pub use guide_error::GuideError;
#[doc(hidden)]
pub use inside::{Known, replay};
pub use limits::Limits;
pub use matching::Wake;
pub use task::TASK;

use crate::sampler::Mask;
use crate::sampler::Promise;
use matching::{Follows, Matching};

/// The tokens that may follow an answer so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Anything: the model is not guided at present.
    Anything,
    /// One of the tokens of this mask.
    Allowed(Mask),
    /// These tokens, one after the other, tokenized as by the model's own tokenizer.
    Forced(Vec<u32>),
    /// Nothing: the answer is complete.
    Nothing,
}

/// The tokens that may follow, for a thread that does not wait.
#[derive(Clone, Debug)]
pub enum Soon {
    Known(Next),
    /// One of the tokens of this mask. If it is not known yet whether a token is to be chosen, the mask may later allow
    /// only the token that must come. There is no mask if the answer turns out to be complete.
    Later(Promise),
}

/// The stage of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its first token may begin thoughts.
    Begins,
    /// The model thinks.
    Thinks,
    Answers,
}

/// The limits of an answer's thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thoughts {
    pub allowed: bool,
    /// The most tokens of thoughts.
    pub most: Option<usize>,
}

impl Thoughts {
    pub const NONE: Self = Self {
        allowed: false,
        most: None,
    };
}

/// The state of a guided answer.
pub struct Guide {
    /// `None` if only thoughts are limited.
    matching: Option<Matching>,
    thinking: Option<Thinking>,
    stage: Stage,
    /// Tokens that end thoughts, or separate the answer from them. No grammar contains them.
    closing: VecDeque<u32>,
}

/// The longest wait of a thread that needs a report at once. Most reports arrive within some tens of microseconds, and
/// a slower mask is promised.
const PATIENCE: Duration = Duration::from_micros(200);
/// The longest wait of a thread that has no other work; the process's own limits are shorter.
const LONG: Duration = Duration::from_secs(3600);

/// A model's way of thinking.
#[derive(Clone, Debug)]
struct Thinking {
    begin: u32,
    end: u32,
    /// The tokens that end thoughts that are too long, including `end`.
    close: Vec<u32>,
    /// The tokens between thoughts and answer.
    apart: Vec<u32>,
    /// Tokens that thoughts may contain under a grammar: text, those that end thoughts, and those that end an answer if
    /// it may be empty.
    may: Mask,
    /// The number of further tokens that thoughts may have.
    left: Option<usize>,
}

impl Guide {
    fn new(matching: Option<Matching>, thinking: Option<Thinking>, stage: Stage) -> Self {
        Self {
            matching,
            thinking,
            stage,
            closing: VecDeque::new(),
        }
    }

    /// Sets the function to call when an awaited report arrives.
    pub fn wake(&self, wake: Wake) {
        if let Some(matching) = &self.matching {
            matching.wake(wake);
        }
    }

    /// Adds a token of the answer. The next query reports a token that does not fit.
    pub fn take(&mut self, token: u32) {
        self.take_all(&[token]);
    }

    /// Adds tokens of the answer. No mask is computed between them.
    pub fn take_all(&mut self, tokens: &[u32]) {
        let of_grammar = tokens.iter().filter(|token| self.advance(**token));
        let of_grammar: Vec<_> = of_grammar.copied().collect();
        if let Some(matching) = self.matching.as_ref().filter(|_| !of_grammar.is_empty()) {
            matching.take(&of_grammar);
        }
    }

    /// Adds a token, and returns whether it belongs to the text of the grammar.
    fn advance(&mut self, token: u32) -> bool {
        let closes = self.closing.front() == Some(&token);
        if closes {
            self.closing.pop_front();
        }
        match (&mut self.thinking, self.stage) {
            (Some(thinking), Stage::Begins) if token == thinking.begin => {
                self.stage = Stage::Thinks;
                return false;
            }
            (Some(thinking), Stage::Thinks) => {
                thinking.left = thinking.left.map(|left| left.saturating_sub(1));
                if token == thinking.end {
                    self.stage = Stage::Answers;
                    if let Some(matching) = &self.matching {
                        matching.answers();
                        if !closes {
                            self.closing = thinking.apart.clone().into();
                        }
                    }
                }
                return false;
            }
            _ => self.stage = Stage::Answers,
        }
        !closes
    }

    /// Returns how many guesses of the next tokens may be right, as far as that is known without waiting. Tokens that begin,
    /// end or follow thoughts are not guessed.
    #[must_use]
    pub fn plausible(&self, guesses: &[u32]) -> usize {
        if !self.closing.is_empty() || self.stage == Stage::Begins {
            return 0;
        }
        match (&self.thinking, &self.matching) {
            (Some(thinking), _) if self.stage == Stage::Thinks => {
                // A token is chosen after the last guess.
                let most = thinking
                    .left
                    .map_or(guesses.len(), |left| left.saturating_sub(1));
                let goes_on =
                    |guess: &&u32| **guess != thinking.end && thinking.may.allows(**guess);
                guesses.iter().take(most).take_while(goes_on).count()
            }
            (_, Some(matching)) => matching.plausible(guesses),
            (_, None) => guesses.len(),
        }
    }

    /// Requests the masks after plausible guesses of the next tokens, in order. There may be fewer: the guesses after the last
    /// mask are wrong. A promise breaks if a guess proves wrong, or completes the answer. Returns `None` if no mask limits the
    /// tokens at present.
    #[must_use]
    pub fn guess(&self, guesses: &[u32]) -> Option<Vec<Promise>> {
        let matching = self.matching.as_ref()?;
        Some(match &self.thinking {
            Some(thinking) if self.stage == Stage::Thinks => {
                vec![Promise::of(thinking.may.clone()); guesses.len()]
            }
            _ => matching.guess(guesses),
        })
    }

    /// Waits for the tokens that may follow.
    ///
    /// # Errors
    /// If nothing can follow an incomplete answer, or the grammar exceeds a limit.
    pub fn follows(&mut self) -> Result<Next, GuideError> {
        match self.follows_within(LONG)? {
            Soon::Known(next) => Ok(next),
            Soon::Later(promise) => match promise.wait() {
                Some(mask) => Ok(Next::Allowed(mask.clone())),
                None => Err(self.error().unwrap_or(GuideError::NothingFollows)),
            },
        }
    }

    /// Returns the tokens that may follow, or the promise of a mask.
    pub fn follows_soon(&mut self) -> Result<Soon, GuideError> {
        self.follows_within(PATIENCE)
    }

    fn follows_within(&mut self, patience: Duration) -> Result<Soon, GuideError> {
        if let Some(thinking) = &self.thinking
            && self.stage == Stage::Thinks
            && thinking.left == Some(0)
            && self.closing.is_empty()
        {
            self.closing = thinking.close.clone().into();
        }
        if !self.closing.is_empty() {
            let closing = self.closing.iter().copied().collect();
            return Ok(Soon::Known(Next::Forced(closing)));
        }
        let Some(matching) = &self.matching else {
            return Ok(Soon::Known(Next::Anything));
        };
        if let Some(thinking) = self
            .thinking
            .as_ref()
            .filter(|_| self.stage == Stage::Thinks)
        {
            return Ok(Soon::Known(Next::Allowed(thinking.may.clone())));
        }
        Ok(match matching.follows(patience)? {
            Follows::Forced(tokens) => Soon::Known(Next::Forced(tokens)),
            Follows::Nothing => Soon::Known(Next::Nothing),
            Follows::Choice(promise) => Soon::Later(promise),
        })
    }

    /// Returns the reason if nothing can follow.
    #[must_use]
    pub fn error(&self) -> Option<GuideError> {
        self.matching.as_ref()?.error()
    }

    /// Whether the answer is known to be complete, so that nothing may follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let answers = self.stage == Stage::Answers && self.closing.is_empty();
        answers && self.matching.as_ref().is_some_and(Matching::is_over)
    }

    /// Whether it is not known yet if the answer is complete.
    #[must_use]
    pub fn may_be_over(&self) -> bool {
        let answers = self.stage == Stage::Answers && self.closing.is_empty();
        answers && self.matching.as_ref().is_some_and(Matching::is_unknown)
    }

    /// Returns the number of tokens that separate thoughts and answer.
    #[must_use]
    pub fn apart(&self) -> usize {
        let thinking = self.thinking.as_ref().filter(|_| self.matching.is_some());
        thinking.map_or(0, |thinking| thinking.apart.len())
    }

    /// Returns the number of known tokens that must come.
    #[must_use]
    pub fn forced(&self) -> usize {
        let matching = self.matching.as_ref();
        let forces = matching.filter(|_| self.stage == Stage::Answers);
        self.closing.len() + forces.map_or(0, Matching::forced)
    }

    /// Takes up to `most` of the known tokens that must come.
    pub fn force(&mut self, most: usize) -> Vec<u32> {
        if self.closing.is_empty() {
            let matching = self.matching.as_ref();
            let forces = matching.filter(|_| self.stage == Stage::Answers);
            return forces.map_or_else(Vec::new, |matching| matching.force(most, PATIENCE));
        }
        // The tokens after the closing ones are known only later. A row without a mask after forced tokens cannot be
        // repeated, so the last closing token has a step of its own.
        let all = self.closing.len();
        let may = if self.matching.is_some() {
            all - 1
        } else {
            all
        };
        let tokens: Vec<_> = self.closing.iter().copied().take(may.min(most)).collect();
        tokens.iter().for_each(|token| self.take(*token));
        tokens
    }

    /// Returns JSON pointers to keywords of the caller's schemas that are not enforced.
    #[must_use]
    pub fn unchecked(&self) -> &[String] {
        self.matching.as_ref().map_or(&[], Matching::unchecked)
    }

    /// Returns the processor time of the last mask.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.matching
            .as_ref()
            .map_or(Duration::ZERO, Matching::took)
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guide")
            .field("stage", &self.stage)
            .field("matching", &self.matching)
            .finish_non_exhaustive()
    }
}
