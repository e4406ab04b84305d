//! Compiles grammars for one vocabulary.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::{Logger, ParserFactory};
use rustix::process::Pid;
use toktrie::InferenceCapabilities;

use super::learned::Compiled;
use super::numbers::{Numbers, Tokens};
use super::room::{self, Room};
use super::vocabulary::{self, Words};
use super::{bounds, place};
use crate::guide::{Grammar, GrammarError, Limits};

/// The cost of one mask: nodes of regular expressions, 14 in a microsecond, and items of the parser, 20 in a microsecond. Masks of
/// the largest schemas in use cost a tenth of it.
pub(super) const MASK_NODES: u64 = 50_000;
const MASK_ITEMS: usize = 50_000;
/// States of the lexer, 0.5 to 1 KiB each.
const STATES: usize = 32_000;

/// The priority of the thread that compiles: other work of the machine gets three times as much of a processor.
const NICE: i32 = 5;
/// Grammars in use compile within this processor time. Afterwards other work gets 68 times as much of a processor.
const USUAL: Duration = Duration::from_millis(100);
const LOWEST: i32 = 19;

/// The least work of a part of a schema that is searched for an error.
const LEAST_WORK: usize = 2000;

/// What all grammars of a vocabulary share.
pub(super) struct Shared {
    factory: ParserFactory,
    room: Arc<Room>,
    tokens: Arc<Tokens>,
}

impl Shared {
    /// Takes a fifth of a second for a vocabulary of 150,000 tokens; `None` if no token ends an answer.
    pub(super) fn new(words: &Arc<Words>) -> Option<Self> {
        let environment = vocabulary::environment(words)?;
        let slices = room::SLICES.map(str::to_owned);
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

    /// Returns what keeps the numbers of an answer within the range of a double.
    pub(super) fn numbers(&self, grammar: &Grammar) -> Option<Numbers> {
        let tokens = self.tokens.clone();
        match grammar {
            Grammar::Json | Grammar::JsonSchema(_) => Some(Numbers::of_json(tokens)),
            Grammar::Tools { trigger, .. } => Some(Numbers::of_calls(tokens, trigger.as_deref())),
            Grammar::Regex(_) | Grammar::Lark(_) | Grammar::Choice(_) => None,
        }
    }

    /// Compiles a grammar. If a schema is wrong, `first` receives the reason before the place of the error is searched, which may
    /// take long.
    pub(super) fn compile(
        &self,
        grammar: &Grammar,
        limits: Limits,
        first: impl Fn(&GrammarError) + Sync,
    ) -> Result<Compiled, GrammarError> {
        deep(grammar, || {
            match (self.compile_here(grammar, limits), grammar) {
                (Err(wrong @ GrammarError::Wrong { .. }), Grammar::JsonSchema(text)) => {
                    first(&wrong);
                    let GrammarError::Wrong { option, why } = wrong else {
                        return Err(wrong);
                    };
                    let why = self.placed(text, limits, why);
                    Err(GrammarError::Wrong { option, why })
                }
                (compiled, _) => compiled,
            }
        })
    }

    /// Returns the first of these schemas that is wrong: its name and the reason.
    pub(super) fn find(
        &self,
        schemas: Vec<(String, String)>,
        limits: Limits,
    ) -> Option<(String, String)> {
        // Together they may cost no more than the grammar that was refused.
        let each = Limits {
            work: (limits.work / schemas.len().max(1)).max(LEAST_WORK),
            ..limits
        };
        schemas.into_iter().find_map(|(name, schema)| {
            let schema = Grammar::JsonSchema(schema);
            let wrong = self.compile(&schema, each, |_| {}).err()?;
            let GrammarError::Wrong { why, .. } = wrong else {
                return None;
            };
            Some((name, why))
        })
    }

    /// Returns what is wrong with a schema, and where.
    fn placed(&self, text: &str, limits: Limits, why: String) -> String {
        let Ok(schema) = serde_json::from_str(text) else {
            return why;
        };
        // All tries together cost no more than the schema that was refused, and a quarter of its time.
        let each = Limits {
            work: (limits.work / place::TRIES).max(LEAST_WORK),
            ..limits
        };
        let until = bounds::processor_time() + limits.compile / 4;
        let pointer = place::pointer(&schema, quoted(&why), |part| {
            if bounds::processor_time() > until {
                return false;
            }
            let part = Grammar::JsonSchema(part.to_string());
            let compiled = self.compile_here(&part, each);
            compiled.is_err_and(|error| error == part.wrong(&why))
        });
        match pointer.as_str() {
            "" => why,
            pointer => format!("{why} at {:?}", shortened(pointer)),
        }
    }

    fn compile_here(&self, grammar: &Grammar, limits: Limits) -> Result<Compiled, GrammarError> {
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
            GrammarInit::Serialized(grammar.top_level()?),
            Logger::new(0, 0),
            capabilities(),
            limits,
        );
        let parser = parser.map_err(|why| grammar.wrong(&why.to_string()))?;
        let compiled = Compiled::new(parser, self.room.clone());
        // A grammar that allows no first token is refused here, where its caller still waits.
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

/// Runs `compile` on a thread with a deep stack: llguidance recurses as deep as a grammar nests, or has references in a row.
fn deep(
    grammar: &Grammar,
    compile: impl FnOnce() -> Result<Compiled, GrammarError> + Send,
) -> Result<Compiled, GrammarError> {
    let (id, ids) = mpsc::channel();
    let modest = || {
        // This changes the priority of this thread alone, as Linux has it.
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
        lower(&deep, &ids);
        deep.join()
            .unwrap_or_else(|_| failed("it cannot be compiled"))
    })
}

/// Waits for a thread that compiles, and lowers its priority when it has computed for longer than usual.
fn lower<T>(deep: &ScopedJoinHandle<'_, T>, ids: &mpsc::Receiver<i32>) {
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

/// Returns a pointer of bounded length: the names in a schema may be as long as the schema.
fn shortened(pointer: &str) -> String {
    const SIDE: usize = 300;
    let chars = pointer.chars().count();
    if chars <= 2 * SIDE {
        return pointer.to_owned();
    }
    let (first, last) = (
        pointer.chars().take(SIDE),
        pointer.chars().skip(chars - SIDE),
    );
    first.chain("...".chars()).chain(last).collect()
}

/// Returns the first keyword that an error names.
fn quoted(why: &str) -> Option<&str> {
    why.split('"').nth(1)
}

/// Tokens that must come are reported; an answer is never rolled back.
fn capabilities() -> InferenceCapabilities {
    InferenceCapabilities {
        ff_tokens: true,
        ..InferenceCapabilities::default()
    }
}
