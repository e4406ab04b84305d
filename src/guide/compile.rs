//! Grammars become guides: for one model's vocabulary, within limits, and once for each that is asked for again.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::{Logger, Matcher, ParserFactory};
use toktrie::InferenceCapabilities;

use super::room::{self, Room};
use super::{Grammar, GrammarError, Guide, Stage, Thinking, Thoughts, vocabulary};
use crate::model::language::Words;
use crate::sampler::Mask;

/// What models that think write at the end of their thoughts, and between these and the answer.
const LAST: &str = "\n";
const APART: &str = "\n\n";

/// Compiled grammars that are kept for whoever asks again.
const KEPT: usize = 32;

/// What a grammar may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What a caller says has at most so many.
    pub bytes: usize,
    /// Nodes of regular expressions that compiling may make, and symbols of the grammar.
    pub work: usize,
}

impl Limits {
    /// Where nobody says: the largest schemas in use take a fifth of it.
    pub const USUAL: Self = Self {
        bytes: 256 << 10,
        work: 500_000,
    };
}

/// What all grammars of a vocabulary share.
struct Shared {
    factory: ParserFactory,
    room: Arc<Room>,
}

/// Compiles for one vocabulary.
pub struct Grammars {
    words: Words,
    /// Made when it is first needed, or before: of a vocabulary of 150,000 tokens that takes a fifth of a second.
    shared: OnceLock<Option<Shared>>,
    compiled: Mutex<VecDeque<(Grammar, Matcher)>>,
}

impl Grammars {
    #[must_use]
    pub fn new(words: Words) -> Self {
        Self {
            words,
            shared: OnceLock::new(),
            compiled: Mutex::default(),
        }
    }

    /// Makes what all grammars share.
    pub fn prepare(&self) {
        self.shared();
    }

    /// What goes along with an answer to `prompt`.
    ///
    /// # Errors
    /// If the grammar is wrong, or larger than `limits`, or the vocabulary has no end.
    pub fn guide(
        &self,
        grammar: &Grammar,
        limits: Limits,
        prompt: &[u32],
        thoughts: Thoughts,
    ) -> Result<Guide, GrammarError> {
        let matcher = self.matcher(grammar, limits)?;
        let thinking = self.thinking(thoughts);
        let stage = self.stage(prompt, thoughts);
        Ok(Guide::new(Some(matcher), thinking, stage))
    }

    /// The same for an answer of which only the thoughts are bounded; `None` if the model has none.
    #[must_use]
    pub fn free(&self, prompt: &[u32], thoughts: Thoughts) -> Option<Guide> {
        let thinking = self.thinking(thoughts)?;
        let stage = self.stage(prompt, thoughts);
        Some(Guide::new(None, Some(thinking), stage))
    }

    /// Where an answer begins.
    fn stage(&self, prompt: &[u32], thoughts: Thoughts) -> Stage {
        match self.words.thinking() {
            Some(_) if self.words.ends_in_thought(prompt) => Stage::Thinks,
            Some(_) if thoughts.allowed => Stage::Begins,
            _ => Stage::Answers,
        }
    }

    fn thinking(&self, thoughts: Thoughts) -> Option<Thinking> {
        let [begin, end] = self.words.thinking()?;
        let apart = self.words.encode(APART);
        let close = [self.words.encode(LAST), vec![end], apart.clone()];
        Some(Thinking {
            begin,
            end,
            close: close.concat(),
            apart,
            may: self.text_and(end),
            left: thoughts.most,
        })
    }

    /// Tokens that are text, and another.
    fn text_and(&self, other: u32) -> Mask {
        let count = self.words.count();
        let mut all = vec![0_u32; Mask::words_of(count as usize)];
        let specials = self.words.specials().map(|(special, _)| special);
        let never: HashSet<_> = specials.chain(self.words.ends().iter().copied()).collect();
        for token in (0..count).filter(|token| *token == other || !never.contains(token)) {
            all[token as usize / 32] |= 1 << (token % 32);
        }
        Mask::new(all)
    }

    /// Whether something can be made of a grammar.
    pub fn check(&self, grammar: &Grammar, limits: Limits) -> Result<(), GrammarError> {
        self.compile(grammar, limits).map(drop)
    }

    fn matcher(&self, grammar: &Grammar, limits: Limits) -> Result<Matcher, GrammarError> {
        let bytes = grammar.bytes();
        if bytes > limits.bytes {
            return Err(GrammarError::TooLong {
                option: grammar.option(),
                bytes,
                limit: limits.bytes,
            });
        }
        let mut compiled = self.compiled();
        if let Some(at) = compiled.iter().position(|(known, _)| known == grammar)
            && let Some(known) = compiled.remove(at)
        {
            let matcher = known.1.deep_clone();
            compiled.push_back(known);
            return Ok(matcher);
        }
        drop(compiled);
        let matcher = self.compile(grammar, limits)?;
        let mut compiled = self.compiled();
        if compiled.len() >= KEPT {
            compiled.pop_front();
        }
        compiled.push_back((grammar.clone(), matcher.deep_clone()));
        Ok(matcher)
    }

    fn compile(&self, grammar: &Grammar, limits: Limits) -> Result<Matcher, GrammarError> {
        let shared = self.shared().ok_or(GrammarError::NoVocabulary)?;
        let limits = ParserLimits {
            initial_lexer_fuel: limits.work as u64,
            max_grammar_size: limits.work,
            // What an error says of the answer so far is nobody's.
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let parser = shared.factory.create_parser_from_init_ext(
            GrammarInit::Serialized(grammar.top_level()?),
            Logger::new(0, 0),
            capabilities(),
            limits,
        );
        let mut matcher = Matcher::new(parser.map(|mut parser| {
            parser.bias_computer = shared.room.clone();
            parser
        }));
        // What cannot even begin is refused here, where its caller still waits.
        if matcher.compute_ff_tokens().is_empty() && !matcher.is_stopped() {
            let _ = matcher.compute_mask();
        }
        match matcher.get_error() {
            Some(why) => Err(grammar.wrong(&why)),
            None => Ok(matcher),
        }
    }

    fn shared(&self) -> Option<&Shared> {
        let make = || {
            let environment = vocabulary::environment(&self.words)?;
            let slices = room::SLICES.map(str::to_owned);
            let mut factory = ParserFactory::new(&environment, capabilities(), &slices).ok()?;
            factory.quiet();
            let room = Arc::new(Room::new(&factory));
            Some(Shared { factory, room })
        };
        self.shared.get_or_init(make).as_ref()
    }

    fn compiled(&self) -> MutexGuard<'_, VecDeque<(Grammar, Matcher)>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that must come are told as such; an answer is never taken back.
fn capabilities() -> InferenceCapabilities {
    InferenceCapabilities {
        ff_tokens: true,
        ..InferenceCapabilities::default()
    }
}

impl fmt::Debug for Grammars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compiled = self.compiled().len();
        formatter
            .debug_struct("Grammars")
            .field("compiled", &compiled)
            .finish_non_exhaustive()
    }
}
