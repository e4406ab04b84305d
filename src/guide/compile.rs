//! Grammars become guides: for one model's vocabulary, within limits, and once for each that is asked for again.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ScopedJoinHandle};

use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::{Logger, Matcher, ParserFactory};
use toktrie::InferenceCapabilities;

use super::kept::{Compiled, Kept, Lesson};
use super::numbers::{Numbers, Tokens};
use super::room::{self, Room};
use super::{Grammar, GrammarError, Guide, Stage, Thinking, Thoughts, place, vocabulary};
use crate::model::language::Words;
use crate::sampler::Mask;

/// What models that think write at the end of their thoughts, and between these and the answer.
const LAST: &str = "\n";
const APART: &str = "\n\n";

/// What one mask may cost: nodes of regular expressions, 14 a microsecond, and items of the parser, 20 a microsecond. Masks of the
/// largest schemas in use take a tenth of it.
pub(super) const MASK_NODES: u64 = 50_000;
const MASK_ITEMS: usize = 50_000;
/// States of the lexer, 0.5 to 1 KiB each.
const STATES: usize = 32_000;
/// Bytes, about, that a byte of a grammar becomes.
const GRAMMAR: usize = 30;

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

/// The stack of the thread that compiles, for the deepest that the bytes of a grammar can be.
const STACK: usize = 64 << 20;

/// The least work that a part of a schema may take which is looked at for what is wrong.
const LEAST_WORK: usize = 2000;

/// What all grammars of a vocabulary share.
struct Shared {
    factory: ParserFactory,
    room: Arc<Room>,
    tokens: Arc<Tokens>,
}

/// Compiles for one vocabulary.
pub struct Grammars {
    words: Words,
    /// It is made when it is first needed, or before: of a vocabulary of 150,000 tokens that takes a fifth of a second.
    shared: OnceLock<Option<Shared>>,
    kept: Kept,
}

impl Grammars {
    #[must_use]
    pub fn new(words: Words) -> Self {
        Self {
            words,
            shared: OnceLock::new(),
            kept: Kept::default(),
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
        let (matcher, lesson) = self.matcher(grammar, limits)?;
        let thinking = self.thinking(thoughts);
        let stage = self.stage(prompt, thoughts);
        Ok(Guide {
            lesson: Some(Arc::new(lesson)),
            numbers: self.numbers(grammar),
            ..Guide::new(Some(matcher), thinking, stage)
        })
    }

    /// What keeps the numbers of an answer such that a double holds them.
    fn numbers(&self, grammar: &Grammar) -> Option<Numbers> {
        let tokens = self.shared()?.tokens.clone();
        match grammar {
            Grammar::Json | Grammar::JsonSchema(_) => Some(Numbers::of_json(tokens)),
            Grammar::Tools { trigger, .. } => Some(Numbers::of_calls(tokens, trigger.as_deref())),
            Grammar::Regex(_) | Grammar::Lark(_) | Grammar::Choice(_) => None,
        }
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

    fn matcher(
        &self,
        grammar: &Grammar,
        limits: Limits,
    ) -> Result<(Matcher, Lesson), GrammarError> {
        let bytes = grammar.bytes();
        if bytes > limits.bytes {
            return Err(GrammarError::TooLong {
                option: grammar.option(),
                bytes,
                limit: limits.bytes,
            });
        }
        if let Some(known) = self.kept.get(grammar) {
            return Ok(known);
        }
        let compiled = self.compile(grammar, limits)?;
        Ok(self.kept.put(grammar.clone(), compiled))
    }

    /// Makes what can be made of a grammar, and says of a schema where what is wrong lies.
    fn compile(&self, grammar: &Grammar, limits: Limits) -> Result<Compiled, GrammarError> {
        // llguidance goes as deep as a grammar has members or references in a row, and an overflow is nobody's error: it
        // ends the process. What is not touched of a stack takes no memory.
        let compile = || match (self.compile_here(grammar, limits), grammar) {
            (Err(GrammarError::Wrong { option, why }), Grammar::JsonSchema(text)) => {
                let why = self.placed(text, limits, why);
                Err(GrammarError::Wrong { option, why })
            }
            (compiled, _) => compiled,
        };
        thread::scope(|scope| {
            let deep = thread::Builder::new().name("grammar".into());
            let deep = deep.stack_size(STACK).spawn_scoped(scope, compile);
            let compiled = deep.map(ScopedJoinHandle::join);
            let failed = |why| Err(grammar.wrong(&why));
            match compiled {
                Ok(Ok(compiled)) => compiled,
                Ok(Err(_)) => failed("it cannot be compiled"),
                Err(_) => failed("the system has no thread left to compile it; try again"),
            }
        })
    }

    /// What is wrong with a schema, and where.
    fn placed(&self, text: &str, limits: Limits, why: String) -> String {
        let Ok(schema) = serde_json::from_str(text) else {
            return why;
        };
        // All together cost no more than what was refused.
        let each = Limits {
            work: (limits.work / place::TRIES).max(LEAST_WORK),
            ..limits
        };
        let pointer = place::pointer(&schema, quoted(&why), |part| {
            let part = Grammar::JsonSchema(part.to_string());
            let compiled = self.compile_here(&part, each);
            compiled.is_err_and(|error| error == part.wrong(&why))
        });
        match pointer.as_str() {
            "" => why,
            pointer => format!("{why} at {pointer:?}"),
        }
    }

    fn compile_here(&self, grammar: &Grammar, limits: Limits) -> Result<Compiled, GrammarError> {
        let shared = self.shared().ok_or(GrammarError::NoVocabulary)?;
        let limits = ParserLimits {
            initial_lexer_fuel: limits.work as u64,
            max_grammar_size: limits.work,
            step_lexer_fuel: MASK_NODES,
            step_max_items: MASK_ITEMS,
            max_lexer_states: STATES,
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
        let parser = parser.map_err(|why| grammar.wrong(&why.to_string()))?;
        let others = GRAMMAR * grammar.bytes().max(64);
        let compiled = Compiled::new(parser, shared.room.clone(), others);
        // What cannot even begin is refused here, where its caller still waits.
        let mut matcher = compiled.matcher();
        if matcher.compute_ff_tokens().is_empty() && !matcher.is_stopped() {
            let _ = matcher.compute_mask();
        }
        match matcher.get_error() {
            Some(why) => Err(grammar.wrong(&why)),
            None => Ok(compiled),
        }
    }

    fn shared(&self) -> Option<&Shared> {
        let make = || {
            let environment = vocabulary::environment(&self.words)?;
            let slices = room::SLICES.map(str::to_owned);
            let mut factory = ParserFactory::new(&environment, capabilities(), &slices).ok()?;
            factory.quiet();
            let room = Arc::new(Room::new(&factory));
            let tokens = Arc::new(Tokens::new(&self.words));
            Some(Shared {
                factory,
                room,
                tokens,
            })
        };
        self.shared.get_or_init(make).as_ref()
    }
}

/// The first of the keywords that an error names.
fn quoted(why: &str) -> Option<&str> {
    why.split('"').nth(1)
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
        let compiled = self.kept.count();
        formatter
            .debug_struct("Grammars")
            .field("compiled", &compiled)
            .finish_non_exhaustive()
    }
}
