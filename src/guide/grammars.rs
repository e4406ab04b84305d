//! The compiled grammars of one model: each is compiled in a process of its own, and serves one answer at a time.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::{FromProcess, ToProcess, Why};
use super::grammar::{Grammar, GrammarError};
use super::keeper::{self, Keeper, Lost, Process};
use super::limits::{COMPILING, Limits};
use super::matching::Matching;
use super::shelf::{Found, Key, Shelf};
use super::{Guide, Stage, Thinking, Thoughts};
use crate::confined::Bound;
use crate::model::language::Words;
use crate::sampler::Mask;

/// Compiles grammars for one vocabulary.
pub struct Grammars {
    words: Words,
    keeper: Arc<Keeper>,
    shelf: Shelf,
}

impl Grammars {
    #[must_use]
    pub fn new(words: Words) -> Self {
        Self {
            keeper: Arc::new(Keeper::new(words.clone())),
            words,
            shelf: Shelf::default(),
        }
    }

    /// Starts the process that holds the vocabulary, which takes a fifth of a second for 150,000 tokens. An error is reported by the
    /// first grammar that needs the process.
    pub fn prepare(&self) {
        let _ = self.keeper.prepare();
    }

    /// Whether a grammar of a user is compiled, without waiting.
    ///
    /// # Errors
    /// If the grammar has exceeded a limit before.
    pub fn is_compiled(
        &self,
        user: u32,
        grammar: &Grammar,
        limits: Limits,
    ) -> Result<bool, GrammarError> {
        self.shelf.knows(&key(user, grammar, limits))
    }

    /// Compiles a grammar of a user, unless it is compiled. Waits for that as long as `wanted` holds.
    ///
    /// # Errors
    /// If the grammar is invalid or exceeds `limits`; if the vocabulary has no end; `Unwanted`; `NoProcess`.
    pub fn check(
        &self,
        user: u32,
        grammar: &Grammar,
        limits: Limits,
        wanted: impl Fn() -> bool,
    ) -> Result<(), GrammarError> {
        let key = key(user, grammar, limits);
        let bytes = grammar.bytes();
        if bytes > limits.bytes {
            return Err(GrammarError::TooLong {
                option: grammar.option(),
                bytes,
                limit: limits.bytes,
            });
        }
        if self.shelf.knows(&key)? {
            return Ok(());
        }
        let process = self.process()?;
        let compile = ToProcess::Compile {
            grammar: grammar.clone(),
            limits,
            idle: self.shelf.has_refused(user),
        };
        match Self::ask(&process, &compile, limits, wanted) {
            Ok(FromProcess::Compiled(bytes, unchecked)) => {
                process.leaves_unchecked(unchecked);
                self.shelf.put(key, Arc::new(process), bytes);
                Ok(())
            }
            Ok(FromProcess::Wrong(why) | FromProcess::Refused(why)) => Err(why.error(grammar)),
            Ok(_) => Err(grammar.wrong(&"its process answered something else")),
            Err(Lost::Cancelled) => Err(GrammarError::Unwanted),
            Err(lost) => {
                let error = stopped(grammar, limits, &lost);
                // Other ends may be the machine's fault.
                if let Lost::Bound(_) = lost {
                    self.shelf.refuse(key, error.clone());
                }
                Err(error)
            }
        }
    }

    /// Returns the name of the first invalid schema, and the reason; `None` also if the search takes too long.
    pub fn find(
        &self,
        schemas: Vec<(String, String)>,
        lenient: bool,
        limits: Limits,
        wanted: impl Fn() -> bool,
    ) -> Option<(String, String)> {
        let process = self.process().ok()?;
        let find = ToProcess::Find(schemas, lenient, limits);
        match Self::ask(&process, &find, limits, wanted) {
            Ok(FromProcess::Found(found)) => found,
            _ => None,
        }
    }

    fn process(&self) -> Result<Process, GrammarError> {
        let ready = self.keeper.prepare();
        if !ready.map_err(no_process)? {
            return Err(GrammarError::NoVocabulary);
        }
        Process::start(&self.keeper).map_err(no_process)
    }

    /// Queries a process that compiles, and returns its answer. If the time for a better answer passes, the first
    /// reason of a refusal is returned.
    fn ask(
        process: &Process,
        question: &ToProcess,
        limits: Limits,
        wanted: impl Fn() -> bool,
    ) -> Result<FromProcess, Lost> {
        let begun = Instant::now();
        let overdue = || {
            if !wanted() {
                return Some(Lost::Cancelled);
            }
            (begun.elapsed() > limits.compile_on_the_wall()).then_some(Lost::TooLong)
        };
        let sent = process.send(question);
        sent.map_err(|error| Lost::Other(error.to_string()))?;
        let mut first = None::<Why>;
        loop {
            match process.receive(overdue) {
                Ok(FromProcess::Wrong(why)) => first = Some(why),
                Ok(answer) => return Ok(answer),
                Err(Lost::Cancelled) => return Err(Lost::Cancelled),
                Err(lost) => return first.map(FromProcess::Refused).ok_or(lost),
            }
        }
    }

    /// Lends a compiled grammar to an answer to `prompt`, without waiting; `None` if it is no longer compiled.
    ///
    /// # Errors
    /// `NoProcess`.
    pub fn lend(
        &self,
        user: u32,
        grammar: &Grammar,
        limits: Limits,
        prompt: &[u32],
        thoughts: Thoughts,
    ) -> Result<Option<Guide>, GrammarError> {
        let key = key(user, grammar, limits);
        let process = match self.shelf.take(&key) {
            None => return Ok(None),
            Some(Found::Idle(process, _)) => process,
            Some(Found::Lent(busy)) => {
                let process = Arc::new(busy.duplicate().map_err(no_process)?);
                self.shelf.lend(&key, &process);
                process
            }
        };
        let stage = self.stage(prompt, thoughts);
        let idle = self.shelf.clone();
        let back = Box::new(move |process, bytes| idle.put(key, process, bytes));
        let thinking = self.thinking(thoughts, grammar.allows_silence());
        let begins = thinking.as_ref().filter(|_| stage == Stage::Begins);
        let thought_begin = begins.map(|thinking| thinking.begin);
        let matching = Matching::begin(process, limits, thought_begin, back);
        let matching = matching.map_err(no_process)?;
        Ok(Some(Guide::new(Some(matching), thinking, stage)))
    }

    /// Compiles a grammar and lends it, for programs with one user and time to wait.
    ///
    /// # Errors
    /// As `check` and `lend`.
    pub fn guide(
        &self,
        grammar: &Grammar,
        limits: Limits,
        prompt: &[u32],
        thoughts: Thoughts,
    ) -> Result<Guide, GrammarError> {
        self.check(0, grammar, limits, || true)?;
        let lent = self.lend(0, grammar, limits, prompt, thoughts)?;
        lent.ok_or_else(|| grammar.wrong(&"its process has ended; try again"))
    }

    /// Returns whether a grammar allows these tokens, however their text is tokenized, and whether an answer may end
    /// after them.
    ///
    /// # Errors
    /// As `check`.
    pub fn fits(
        &self,
        grammar: &Grammar,
        limits: Limits,
        tokens: &[u32],
    ) -> Result<(bool, bool), GrammarError> {
        self.check(0, grammar, limits, || true)?;
        let key = key(0, grammar, limits);
        let (process, bytes) = match self.shelf.take(&key) {
            Some(Found::Idle(process, bytes)) => (process, bytes),
            Some(Found::Lent(busy)) => (Arc::new(busy.duplicate().map_err(no_process)?), 0),
            None => return Err(grammar.wrong(&"its process has ended; try again")),
        };
        match Self::ask(&process, &ToProcess::Fit(tokens.to_vec()), limits, || true) {
            Ok(FromProcess::Fits(allowed, ends)) => {
                self.shelf.put(key, process, bytes);
                Ok((allowed, ends))
            }
            Ok(_) => Err(grammar.wrong(&"its process answered something else")),
            Err(lost) => Err(stopped(grammar, limits, &lost)),
        }
    }

    /// Returns a guide that limits only thoughts; `None` if the model has none.
    #[must_use]
    pub fn limit_thoughts(&self, prompt: &[u32], thoughts: Thoughts) -> Option<Guide> {
        let thinking = self.thinking(thoughts, true)?;
        let stage = self.stage(prompt, thoughts);
        Some(Guide::new(None, Some(thinking), stage))
    }

    /// Returns the stage in which an answer begins.
    fn stage(&self, prompt: &[u32], thoughts: Thoughts) -> Stage {
        match self.words.thinking() {
            Some(_) if self.words.ends_in_thought(prompt) => Stage::Thinks,
            Some(_) if thoughts.allowed => Stage::Begins,
            _ => Stage::Answers,
        }
    }

    /// Returns the model's way of thinking; `ends` says whether an answer may end within its thoughts.
    fn thinking(&self, thoughts: Thoughts, ends: bool) -> Option<Thinking> {
        let [begin, end] = self.words.thinking()?;
        let texts = self.words.thoughts();
        let apart = self.words.encode(&texts.apart);
        let close = [self.words.encode(&texts.last), vec![end], apart.clone()];
        Some(Thinking {
            begin,
            end,
            close: close.concat(),
            apart,
            may: self.text_and(end, ends),
            left: thoughts.most,
        })
    }

    /// Returns a mask of all text tokens, of `other`, and, with `ends`, of the end tokens.
    fn text_and(&self, other: u32, ends: bool) -> Mask {
        let count = self.words.count();
        let mut all = vec![0_u32; Mask::words_of(count as usize)];
        let specials = self.words.specials().map(|(special, _)| special);
        let never: HashSet<_> = specials.chain(self.words.ends().iter().copied()).collect();
        let may = |token: &u32| {
            let may_end = ends && self.words.ends().contains(token);
            *token == other || may_end || !never.contains(token)
        };
        for token in (0..count).filter(may) {
            all[token as usize / 32] |= 1 << (token % 32);
        }
        Mask::new(all)
    }
}

fn key(user: u32, grammar: &Grammar, limits: Limits) -> Key {
    Key {
        user,
        grammar: Arc::new(grammar.clone()),
        limits,
    }
}

fn no_process(error: impl Into<std::io::Error>) -> GrammarError {
    let why = keeper::reason(&error.into());
    GrammarError::NoProcess { why }
}

/// Returns the error of a grammar whose process ended while it compiled.
fn stopped(grammar: &Grammar, limits: Limits, lost: &Lost) -> GrammarError {
    let option = grammar.option();
    let seconds = limits.compile.as_secs_f64();
    let why = match lost {
        Lost::Bound(Bound::Time) => {
            format!("took more than {seconds} s of processor time (limits.grammar_seconds)")
        }
        Lost::Bound(Bound::Memory) => format!("needs more than {} MiB of memory", COMPILING >> 20),
        Lost::TooLong => format!(
            "did not end within {} s (limits.grammar_seconds)",
            limits.compile_on_the_wall().as_secs()
        ),
        Lost::Cancelled | Lost::Other(_) => format!("failed: {lost}"),
    };
    GrammarError::Stopped { option, why }
}

impl Limits {
    /// Returns the limit on the wall clock, which allows for a busy machine.
    pub(super) fn compile_on_the_wall(self) -> Duration {
        4 * self.compile + Duration::from_secs(2)
    }

    pub(super) fn mask_on_the_wall(self) -> Duration {
        4 * self.mask + Duration::from_secs(2)
    }
}

impl fmt::Debug for Grammars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Grammars")
            .field("idle", &self.shelf.count())
            .finish_non_exhaustive()
    }
}
