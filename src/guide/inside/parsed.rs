//! The tokens of an answer so far, and the parser after them: the tokens that must come next, or the mask.
//!
//! It sends nothing. A clone shares the lexer, and has its own parser.

use std::collections::VecDeque;

use llguidance::Matcher;

use super::compile::MASK_NODES;
use super::numbers::Numbers;
use crate::guide::guide_error::GuideError;

/// The cost of all masks of one answer, some tens of MiB: a long answer to a large schema costs a tenth of it.
const MOST_NODES: u64 = 500_000;
const MOST_ITEMS: usize = 4_000_000;

#[derive(Clone)]
pub(super) struct Parsed {
    matcher: Matcher,
    /// The limits of numbers; `None` if the answer is not JSON.
    numbers: Option<Numbers>,
    /// All tokens, including those that had to come.
    tokens: Vec<u32>,
    /// The cost of its masks so far: nodes of regular expressions, and items of the parser. Much of their memory stays
    /// until the answer ends.
    nodes: u64,
    items: usize,
    /// The nodes of its own masks and of those that clones have computed.
    spent: u64,
    /// The nodes that clones have computed since its own last mask. llguidance counts them again with its next mask, because the
    /// lexer is shared.
    counted: u64,
    failed: bool,
}

impl Parsed {
    /// Begins an answer.
    pub(super) fn new(matcher: Matcher, numbers: Option<Numbers>) -> Self {
        Self {
            matcher,
            numbers,
            tokens: Vec::new(),
            nodes: 0,
            items: 0,
            spent: 0,
            counted: 0,
            failed: false,
        }
    }

    /// Returns all tokens so far.
    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Whether it has failed. Its lexer may be incomplete then.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Adds the cost of masks that a clone has computed.
    pub(super) fn charge(&mut self, clone: &Self) {
        (self.nodes, self.items) = (clone.nodes, clone.items);
        self.counted += clone.spent - self.spent;
        self.spent = clone.spent;
    }

    /// Adds tokens, and after each of them those that must come next. The latter may be among `tokens`, and others are passed
    /// to `forced`, in order.
    ///
    /// # Errors
    /// If a token does not fit.
    pub(super) fn follow(
        &mut self,
        tokens: &[u32],
        mut forced: impl FnMut(Vec<u32>),
    ) -> Result<(), GuideError> {
        let mut due = VecDeque::new();
        for (at, token) in tokens.iter().enumerate() {
            match due.pop_front() {
                None => self.take(*token)?,
                Some(due) if due == *token => continue,
                Some(_) => return Err(self.fail("another token is due")),
            }
            if at + 1 < tokens.len() {
                self.force(|tokens| due.extend(tokens))?;
            } else {
                self.force(&mut forced)?;
            }
        }
        if !due.is_empty() {
            forced(due.into());
        }
        Ok(())
    }

    /// Adds the tokens that must come next, and passes them to `forced` before.
    pub(super) fn force(&mut self, mut forced: impl FnMut(Vec<u32>)) -> Result<(), GuideError> {
        loop {
            let tokens = self.forced()?;
            if tokens.is_empty() {
                return Ok(());
            }
            forced(tokens.clone());
            tokens.iter().try_for_each(|token| self.take(*token))?;
        }
    }

    fn take(&mut self, token: u32) -> Result<(), GuideError> {
        self.tokens.push(token);
        if let Some(numbers) = &mut self.numbers {
            numbers.take(token);
        }
        let consumed = self.matcher.consume_token(token);
        consumed.map_err(|why| self.fail(&why.to_string()))
    }

    /// Whether the answer is complete.
    pub(super) fn is_over(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }

    /// Returns the tokens that must come next.
    fn forced(&mut self) -> Result<Vec<u32>, GuideError> {
        if self.is_over() {
            return Ok(Vec::new());
        }
        if self.matcher.is_stopped() {
            let why = self.matcher.get_error().unwrap_or_default();
            return Err(self.fail(&why));
        }
        let forced = self.matcher.compute_ff_tokens();
        match self.matcher.get_error() {
            Some(why) => Err(self.fail(&why)),
            None => Ok(forced),
        }
    }

    /// Returns the mask of the next token.
    pub(super) fn mask(&mut self) -> Result<Vec<u32>, GuideError> {
        let mask = self.matcher.compute_mask();
        if let Ok(step) = self.matcher.last_step_stats() {
            // The first mask's cost includes that of compiling.
            let counted = std::mem::take(&mut self.counted);
            let nodes = step.lexer_cost.saturating_sub(counted);
            self.nodes += nodes.min(MASK_NODES);
            self.spent += nodes;
            self.items += step.all_items;
        }
        let mut mask = mask.map_err(|why| self.fail(&why.to_string()))?;
        if self.nodes > MOST_NODES || self.items > MOST_ITEMS {
            return Err(self.fail(TOO_MUCH));
        }
        if let Some(numbers) = &self.numbers {
            numbers.bound(&mut mask);
        }
        Ok(mask.as_slice().to_vec())
    }

    /// Returns the error that llguidance's text describes. That text may quote the grammar and the answer, so it is
    /// dropped.
    fn fail(&mut self, why: &str) -> GuideError {
        self.failed = true;
        let complex = COMPLEX.iter().find(|(words, _)| why.contains(words));
        complex.map_or(GuideError::NothingFollows, |(_, what)| {
            GuideError::TooComplex((*what).to_owned())
        })
    }
}

/// Parts of error texts of llguidance and of this module, and the descriptions for a caller.
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
