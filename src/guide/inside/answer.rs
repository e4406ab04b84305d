//! The process of one grammar: compiles the grammar, and then serves one answer after the other.

use std::io;
use std::time::Duration;

use super::bounds;
use super::compile::Shared;
use super::guesses::Twin;
use super::lexer_cache::{AnswerLexer, LexerCache};
use super::parsed::Parsed;
use super::replayed;
use super::serving::Process;
use crate::guide::frame::{ANSWER, FromProcess, Guessed, Report, Why};
use crate::guide::grammar::{Grammar, GrammarError};
use crate::guide::limits::{ANSWERING, COMPILED, COMPILING, Limits};

/// A compiled grammar, and the answer that is being made.
pub(super) struct Ready {
    grammar: Grammar,
    cache: LexerCache,
    mask_time: Duration,
    answer: Option<Answer>,
}

struct Answer {
    parsed: Parsed,
    own_lexer: AnswerLexer,
    /// Whether the tokens that had to come first were reported before the first mask.
    forced: bool,
    /// The tokens that were reported to come after the last question's, in order.
    due: Vec<u32>,
    /// The mask after them.
    mask: Option<Vec<u32>>,
    /// Computes the masks after guesses, once there were any.
    twin: Option<Twin>,
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
            parsed: Parsed::new(matcher, shared.numbers(&self.grammar)),
            own_lexer,
            forced,
            due: Vec::new(),
            mask: None,
            twin: None,
        };
        follow(&mut answer, process, self.mask_time, question, None)?;
        self.answer = Some(answer);
        Ok(())
    }

    /// Adds tokens to the answer, and reports the tokens that may follow.
    pub(super) fn take(
        &mut self,
        process: &mut Process,
        question: u32,
        tokens: &[u32],
    ) -> io::Result<()> {
        match &mut self.answer {
            Some(answer) => follow(answer, process, self.mask_time, question, Some(tokens)),
            None => Ok(()),
        }
    }

    /// Reports the masks after guesses, which follow the first `after` tokens that are due, until the next message arrives. The
    /// answer does not change.
    pub(super) fn guess(
        &mut self,
        shared: &Shared,
        process: &mut Process,
        (number, after): (u32, usize),
        guesses: &[u32],
    ) -> io::Result<()> {
        if let Some(answer) = &mut self.answer
            && let Some(due) = answer.due.get(after..)
        {
            let mask = answer.mask.as_deref();
            let twin = answer.twin.get_or_insert_with(|| {
                let (matcher, _) = self.cache.begin();
                let parsed = Parsed::new(matcher, shared.numbers(&self.grammar));
                Twin::new(parsed, answer.forced)
            });
            let most = self.mask_time;
            if twin.catch_up(&answer.parsed, process, most)? {
                twin.guess((due, mask), guesses, number, process, most)?;
            }
        }
        process.send(&FromProcess::Guessed(number, Guessed::End))
    }

    /// Ends the answer.
    pub(super) fn end(&mut self, process: &Process) -> io::Result<()> {
        let answer = self.answer.take();
        if let Some(answer) = answer.filter(|answer| !answer.parsed.has_failed()) {
            drop((answer.parsed, answer.twin));
            self.cache.end(answer.own_lexer);
        }
        process.send(&FromProcess::Ended(bounds::own_bytes()))
    }

    /// Drops the answer, which another process continues.
    pub(super) fn forget(&mut self) {
        self.answer = None;
    }
}

/// Takes tokens, none at the beginning of an answer, and reports everything that can follow within the time of a mask: tokens
/// that must come, then a mask or the answer's end.
fn follow(
    answer: &mut Answer,
    process: &mut Process,
    most: Duration,
    question: u32,
    tokens: Option<&[u32]>,
) -> io::Result<()> {
    let Process {
        daemon,
        masks,
        clock,
        ..
    } = process;
    let send = |report| daemon.channel.send(&FromProcess::Follows(question, report));
    let Answer {
        parsed,
        due,
        mask,
        forced,
        ..
    } = answer;
    due.clear();
    *mask = None;
    clock.bound(most, || {
        let report = |tokens: Vec<u32>| {
            due.extend_from_slice(&tokens);
            let _ = send(Report::Forced(tokens));
        };
        let fits = match tokens {
            Some(tokens) => parsed.follow(tokens, report),
            None if *forced => parsed.force(report),
            None => Ok(()),
        };
        if let Err(error) = fits {
            return send(Report::Failed(error));
        }
        if parsed.is_over() {
            return send(Report::Over);
        }
        let before = bounds::thread_time();
        match parsed.mask() {
            Ok(words) => {
                let narrowed = replayed::narrowed(&words, parsed.tokens());
                masks.write(ANSWER, narrowed.as_deref().unwrap_or(&words))?;
                *mask = Some(words);
                let took = bounds::thread_time().saturating_sub(before);
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                send(Report::Mask(took))
            }
            Err(error) => send(Report::Failed(error)),
        }
    })?
}
