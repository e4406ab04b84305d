//! Compiles grammars for one vocabulary.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::{Logger, ParserFactory};
use rustix::process::Pid;
use serde_json::Value;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use toktrie::InferenceCapabilities;

use super::counting::{self, Room};
use super::lexer_cache::Compiled;
use super::numbers::{Numbers, Tokens};
use super::vocabulary::{self, Words};
use super::{bounds, error_place};
use crate::guide::grammar::{self, Grammar, GrammarError, Part, REMEDY, Source, shortened};
use crate::guide::limits::Limits;
use crate::guide::schema;

/// The most cost of one mask: nodes of regular expressions (14 in a microsecond), and items of the parser (20 in a
/// microsecond). Masks of the largest schemas in use cost a tenth of it.
pub(super) const MASK_NODES: u64 = 50_000;
const MASK_ITEMS: usize = 50_000;
/// The most states of the lexer, 0.5 to 1 KiB each.
const STATES: usize = 32_000;

/// The priority of the compiling thread: other work gets three times as much of a processor.
const NICE: i32 = 5;
/// The processor time within which grammars in use compile. After it, other work gets 68 times as much of a processor.
const USUAL: Duration = Duration::from_millis(100);
const LOWEST: i32 = 19;
/// A scheduling policy: the thread runs only while the processor is otherwise idle.
const IDLE: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);

/// The least work of a part of a schema that is searched for an error.
const LEAST_WORK: usize = 2000;

/// The number of places of a schema that are loosened one by one, before all of it is.
const LOOSENED: usize = 8;

/// Data that all grammars of a vocabulary share.
pub(super) struct Shared {
    factory: ParserFactory,
    room: Arc<Room>,
    tokens: Arc<Tokens>,
}

impl Shared {
    /// Builds the data, which takes a fifth of a second for a vocabulary of 150,000 tokens; `None` if no token ends an
    /// answer.
    pub(super) fn new(words: &Arc<Words>) -> Option<Self> {
        let environment = vocabulary::environment(words)?;
        let slices = counting::SLICES.map(str::to_owned);
        let mut factory = ParserFactory::new(&environment, capabilities(), &slices).ok()?;
        factory.quiet();
        let room = Arc::new(Room::new(&factory));
        let tokens = Arc::new(Tokens::new(words));
        Some(Self {
            factory,
            room,
            tokens,
        })
    }

    /// Returns the limits of numbers in an answer of this grammar.
    pub(super) fn numbers(&self, grammar: &Grammar) -> Option<Numbers> {
        let tokens = self.tokens.clone();
        match grammar {
            Grammar::Json | Grammar::JsonSchema(_) | Grammar::LenientSchema(_) => {
                Some(Numbers::of_json(tokens))
            }
            // The rules of a syntax bound numbers, except within arrays and objects that need rules of JSON.
            Grammar::Tools {
                syntax: Some(_), ..
            }
            | Grammar::Regex(_)
            | Grammar::Lark(_)
            | Grammar::Choice(_) => None,
            Grammar::Tools { trigger, .. } => Some(Numbers::of_calls(tokens, trigger.as_deref())),
        }
    }

    /// Compiles a grammar. Returns it with JSON pointers to the keywords that it does not enforce. If a schema is
    /// invalid, `first` receives the reason before the slow search for the place of the error. With `idle` it computes
    /// only while the processor is otherwise idle.
    pub(super) fn compile(
        &self,
        grammar: &Grammar,
        limits: Limits,
        idle: bool,
        first: impl Fn(&GrammarError) + Sync,
    ) -> Result<(Compiled, Vec<String>), GrammarError> {
        with_deep_stack(grammar, idle, || {
            let mut source = grammar.source()?;
            let wrong = match self.compile_here(grammar, &source, limits) {
                Ok(compiled) => return Ok((compiled, source.unchecked())),
                Err(wrong) => wrong,
            };
            let GrammarError::Wrong { option, why } = &wrong else {
                return Err(wrong);
            };
            if grammar.is_lenient() {
                for part in &mut source.parts {
                    self.loosen(part, limits);
                }
                let compiled = self.compile_here(grammar, &source, limits)?;
                return Ok((compiled, source.unchecked()));
            }
            let Grammar::JsonSchema(_) = grammar else {
                return Err(wrong);
            };
            let with_remedy = |why: String| GrammarError::Wrong {
                option,
                why: format!("{why}; {REMEDY}"),
            };
            first(&with_remedy(why.clone()));
            let part = source.parts.first();
            let why = part.map(|part| self.placed(part, limits, why.clone()));
            Err(why.map_or_else(|| wrong.clone(), with_remedy))
        })
    }

    /// Returns the name of the first invalid schema, and the reason.
    pub(super) fn find(
        &self,
        schemas: Vec<(String, String)>,
        lenient: bool,
        limits: Limits,
    ) -> Option<(String, String)> {
        // Together they may cost no more than the refused grammar.
        let each = Limits {
            work: (limits.work / schemas.len().max(1)).max(LEAST_WORK),
            ..limits
        };
        schemas.into_iter().find_map(|(name, schema)| {
            let schema = if lenient {
                Grammar::LenientSchema(schema)
            } else {
                Grammar::JsonSchema(schema)
            };
            let wrong = self.compile(&schema, each, false, |_| {}).err()?;
            let GrammarError::Wrong { why, .. } = wrong else {
                return None;
            };
            Some((name, why))
        })
    }

    /// Returns the error of a schema, and its place.
    fn placed(&self, part: &Part, limits: Limits, why: String) -> String {
        // All attempts together cost no more than the refused schema, and a quarter of its time.
        let each = Limits {
            work: (limits.work / error_place::TRIES).max(LEAST_WORK),
            ..limits
        };
        let until = bounds::processor_time() + limits.compile / 4;
        let around = self.place(&part.schema, &why, each, until);
        // The schema compiles without this keyword.
        let compiles = |schema: &Value| {
            let is_late = bounds::processor_time() > until;
            !is_late
                && self
                    .refusal(&error_place::alone(&part.schema, schema), limits)
                    .is_none()
        };
        let removed = schema::loosen(&mut part.schema.clone(), &around, &why, compiles);
        match removed.first().map(|removed| removed.pointer.as_str()) {
            None | Some("") => why,
            Some(pointer) => {
                let pointer = shortened(&format!("{}{pointer}", part.place));
                format!("{why} at {pointer:?}")
            }
        }
    }

    /// Returns a JSON pointer to the innermost schema that fails for this reason.
    fn place(&self, schema: &Value, why: &str, limits: Limits, until: Duration) -> String {
        error_place::pointer(schema, |part| {
            if bounds::processor_time() > until {
                return false;
            }
            self.refusal(part, limits).is_some_and(|error| error == why)
        })
    }

    /// Removes the parts of a schema that prevent its compilation.
    fn loosen(&self, part: &mut Part, limits: Limits) {
        let until = bounds::processor_time() + limits.compile / 4;
        for round in 0..=LOOSENED {
            let Some(why) = self.refusal(&part.schema, limits) else {
                return;
            };
            // An answer without a schema is always possible.
            let is_last = round == LOOSENED || bounds::processor_time() > until;
            let pointer = if is_last {
                String::new()
            } else {
                self.place(&part.schema, &why, limits, until)
            };
            let whole = part.schema.clone();
            let compiles = |schema: &Value| {
                let alone = error_place::alone(&whole, schema);
                !is_last && self.refusal(&alone, limits).is_none()
            };
            let unchecked = schema::loosen(&mut part.schema, &pointer, &why, compiles);
            part.unchecked.extend(unchecked);
        }
    }

    /// Returns the reason why a prepared schema cannot be compiled.
    fn refusal(&self, schema: &Value, limits: Limits) -> Option<String> {
        let grammar = Grammar::JsonSchema(String::new());
        let compiled = self.compile_schema(&grammar, schema, limits);
        compiled.err().map(|error| match error {
            GrammarError::Wrong { why, .. } => why,
            error => error.to_string(),
        })
    }

    fn compile_schema(
        &self,
        grammar: &Grammar,
        schema: &Value,
        limits: Limits,
    ) -> Result<Compiled, GrammarError> {
        self.compile_top_level(grammar, grammar::of_schema(schema.clone()), limits)
    }

    fn compile_here(
        &self,
        grammar: &Grammar,
        source: &Source<'_>,
        limits: Limits,
    ) -> Result<Compiled, GrammarError> {
        self.compile_top_level(grammar, source.top_level(), limits)
    }

    fn compile_top_level(
        &self,
        grammar: &Grammar,
        top_level: TopLevelGrammar,
        limits: Limits,
    ) -> Result<Compiled, GrammarError> {
        let limits = ParserLimits {
            initial_lexer_fuel: limits.work as u64,
            max_grammar_size: limits.work,
            step_lexer_fuel: MASK_NODES,
            step_max_items: MASK_ITEMS,
            max_lexer_states: STATES,
            // An error could quote the answer.
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let parser = self.factory.create_parser_from_init_ext(
            GrammarInit::Serialized(top_level),
            Logger::new(0, 0),
            capabilities(),
            limits,
        );
        let parser = parser.map_err(|why| grammar.wrong(&why.to_string()))?;
        let compiled = Compiled::new(parser, self.room.clone());
        // A grammar that allows no first token is refused here, while its caller still waits.
        let mut matcher = compiled.matcher();
        if matcher.compute_ff_tokens().is_empty() && !matcher.is_stopped() {
            let _ = matcher.compute_mask();
        }
        match matcher.get_error() {
            Some(why) => Err(grammar.wrong(&why)),
            None => Ok(compiled),
        }
    }
}

/// Runs `compile` on a thread with a deep stack, because llguidance recurses as deeply as a grammar nests or chains
/// references.
fn with_deep_stack<T: Send>(
    grammar: &Grammar,
    idle: bool,
    compile: impl FnOnce() -> Result<T, GrammarError> + Send,
) -> Result<T, GrammarError> {
    let (id, ids) = mpsc::channel();
    let modest = || {
        // These change the priority of this thread alone. A sandbox may refuse it, which does no harm.
        if idle {
            let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, IDLE);
        }
        let _ = rustix::process::nice(NICE);
        let id = id;
        let _ = id.send(nix::unistd::gettid().as_raw());
        compile()
    };
    thread::scope(|scope| {
        let deep = thread::Builder::new().name("grammar".into());
        let deep = deep.stack_size(bounds::STACK).spawn_scoped(scope, modest);
        let failed = |why| Err(grammar.wrong(&why));
        let Ok(deep) = deep else {
            return failed("the system has no thread left to compile it; try again");
        };
        lower_priority(&deep, &ids);
        deep.join()
            .unwrap_or_else(|_| failed("it cannot be compiled"))
    })
}

/// Waits for a compiling thread, and lowers its priority when it takes longer than usual.
fn lower_priority<T>(deep: &ScopedJoinHandle<'_, T>, ids: &mpsc::Receiver<i32>) {
    let Ok(id) = ids.recv() else { return };
    let until = bounds::processor_time() + USUAL;
    // The channel closes when the thread ends.
    while ids.recv_timeout(USUAL) == Err(RecvTimeoutError::Timeout) && !deep.is_finished() {
        if bounds::processor_time() > until {
            let _ = rustix::process::setpriority_process(Pid::from_raw(id), LOWEST);
            return;
        }
    }
}

/// Returns the capabilities that the engine uses: forced tokens are reported, and an answer is never rolled back.
fn capabilities() -> InferenceCapabilities {
    InferenceCapabilities {
        ff_tokens: true,
        ..InferenceCapabilities::default()
    }
}
