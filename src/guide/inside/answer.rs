//! The process of one grammar: compiles the grammar, and then serves one answer after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use llguidance::Matcher;

use super::bounds::{self, Clock, Memory};
use super::compile::{MASK_NODES, Shared};
use super::lexer_cache::{AnswerLexer, LexerCache};
use super::numbers::Numbers;
use super::vocabulary::Daemon;
use crate::guide::frame::{FromProcess, Masks, Report, Why};
use crate::guide::grammar::{Grammar, GrammarError};
use crate::guide::guide_error::GuideError;
use crate::guide::limits::{ANSWERING, COMPILED, COMPILING, Limits};

/// The cost of all masks of one answer, some tens of MiB: a long answer to a large schema costs a tenth of it.
const MOST_NODES: u64 = 500_000;
const MOST_ITEMS: usize = 4_000_000;

/// The connection of a process to its daemon.
pub(super) struct Process {
    pub(super) daemon: Arc<Daemon>,
    pub(super) masks: Masks,
    pub(super) clock: Clock,
    pub(super) memory: Memory,
}

impl Process {
    pub(super) fn send(&self, message: &FromProcess) -> io::Result<()> {
        self.daemon.channel.send(message)
    }
}

/// A compiled grammar, and the answer that is being made.
pub(super) struct Ready {
    grammar: Grammar,
    cache: LexerCache,
    mask_time: Duration,
    answer: Option<Answer>,
}

struct Answer {
    matcher: Matcher,
    own_lexer: AnswerLexer,
    /// The limits of numbers; `None` if the answer is not JSON.
    numbers: Option<Numbers>,
    /// The cost of its masks so far: nodes of regular expressions, and items of the parser. Much of their memory stays
    /// until the answer ends.
    nodes: u64,
    items: usize,
    failed: bool,
}

/// Compiles a grammar, and reports whether it can be used.
pub(super) fn compile(
    shared: &Shared,
    process: &mut Process,
    grammar: Grammar,
    limits: Limits,
    idle: bool,
) -> io::Result<Option<Ready>> {
    process.memory.bound(COMPILING)?;
    let daemon = process.daemon.clone();
    let first = |error: &GrammarError| {
        // If the daemon is gone, this process ends at its next message.
        let _ = daemon
            .channel
            .send(&FromProcess::Wrong(Why::of(error.clone())));
    };
    let compiled = process.clock.bound(limits.compile, || {
        shared.compile(&grammar, limits, idle, first)
    })?;
    let bytes = bounds::own_bytes();
    let why = match compiled {
        Ok((compiled, unchecked)) if bytes <= COMPILED => {
            process.memory.bound(ANSWERING)?;
            process.send(&FromProcess::Compiled(bytes, unchecked))?;
            return Ok(Some(Ready {
                grammar,
                cache: LexerCache::new(compiled),
                mask_time: limits.mask,
                answer: None,
            }));
        }
        Ok(_) => Why::TooLarge(bytes),
        Err(error) => Why::of(error),
    };
    process.send(&FromProcess::Refused(why))?;
    Ok(None)
}

impl Ready {
    /// Returns whether tokens are allowed, and whether an answer may end after them.
    pub(super) fn fit(&self, process: &mut Process, tokens: &[u32]) -> io::Result<(bool, bool)> {
        process.clock.bound(self.mask_time, || {
            let (mut matcher, _) = self.cache.begin();
            let allowed = tokens
                .iter()
                .all(|token| matcher.consume_token(*token).is_ok());
            let ends = allowed
                && (matcher.is_stopped() && matcher.stop_reason().is_ok()
                    || matcher.is_accepting().unwrap_or(false));
            (allowed, ends)
        })
    }

    /// Begins an answer, and reports the tokens that may come first. With `forced`, tokens that must come are reported
    /// before a mask.
    pub(super) fn begin(
        &mut self,
        shared: &Shared,
        process: &mut Process,
        question: u32,
        forced: bool,
    ) -> io::Result<()> {
        let (matcher, own_lexer) = self.cache.begin();
        let mut answer = Answer {
            matcher,
            own_lexer,
            numbers: shared.numbers(&self.grammar),
            nodes: 0,
            items: 0,
            failed: false,
        };
        follow(
            &mut answer,
            process,
            self.mask_time,
            (question, forced),
            None,
        )?;
        self.answer = Some(answer);
        Ok(())
    }

    /// Adds a token to the answer, and reports the tokens that may follow.
    pub(super) fn take(
        &mut self,
        process: &mut Process,
        question: u32,
        token: u32,
    ) -> io::Result<()> {
        match &mut self.answer {
            Some(answer) => follow(
                answer,
                process,
                self.mask_time,
                (question, true),
                Some(token),
            ),
            None => Ok(()),
        }
    }

    /// Ends the answer.
    pub(super) fn end(&mut self, process: &Process) -> io::Result<()> {
        if let Some(answer) = self.answer.take().filter(|answer| !answer.failed) {
            drop(answer.matcher);
            self.cache.end(answer.own_lexer);
        }
        process.send(&FromProcess::Ended(bounds::own_bytes()))
    }

    /// Drops the answer, which another process continues.
    pub(super) fn forget(&mut self) {
        self.answer = None;
    }
}

/// Takes a token, and reports everything that can follow within the time of a mask: tokens that must come, then a mask
/// or the answer's end.
fn follow(
    answer: &mut Answer,
    process: &mut Process,
    most: Duration,
    (question, forced): (u32, bool),
    token: Option<u32>,
) -> io::Result<()> {
    let Process {
        daemon,
        masks,
        clock,
        ..
    } = process;
    let send = |report| daemon.channel.send(&FromProcess::Follows(question, report));
    clock.bound(most, || {
        let fits = token.map_or(Ok(()), |token| answer.take(token));
        let fits = fits.and_then(|()| {
            loop {
                let tokens = if forced { answer.forced()? } else { Vec::new() };
                if tokens.is_empty() {
                    return Ok(());
                }
                let _ = send(Report::Forced(tokens.clone()));
                tokens.iter().try_for_each(|token| answer.take(*token))?;
            }
        });
        if let Err(error) = fits {
            return send(Report::Failed(error));
        }
        if answer.is_over() {
            return send(Report::Over);
        }
        let before = bounds::thread_time();
        match answer.mask() {
            Ok(mask) => {
                masks.write(&mask)?;
                let took = bounds::thread_time().saturating_sub(before);
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                send(Report::Mask(took))
            }
            Err(error) => send(Report::Failed(error)),
        }
    })?
}

impl Answer {
    fn take(&mut self, token: u32) -> Result<(), GuideError> {
        if let Some(numbers) = &mut self.numbers {
            numbers.take(token);
        }
        let consumed = self.matcher.consume_token(token);
        consumed.map_err(|why| self.fail(&why.to_string()))
    }

    fn is_over(&self) -> bool {
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

    fn mask(&mut self) -> Result<Vec<u32>, GuideError> {
        let mask = self.matcher.compute_mask();
        if let Ok(step) = self.matcher.last_step_stats() {
            // The first mask's cost includes that of compiling.
            self.nodes += step.lexer_cost.min(MASK_NODES);
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
