//! The table of options: their names, the calls that take them, and their allowed values.

use super::allowed::{Allowed, number, whole};
use crate::sampler::{MOST_SCORED, Parameters};

/// The largest value of `max_calls`.
const MOST_CALLS: u64 = 128;

const U32: Allowed = whole(0, u32::MAX as u64);

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct OptionKey {
    pub name: &'static str,
    pub scope: Scope,
    pub allowed: Allowed,
}

/// The calls that take an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each request.
    Request,
    /// Each call that begins a conversation: a new session, or a request whose whole answer is one reply.
    Conversation,
    /// A request whose whole answer is one reply.
    Completion,
    /// A new session; most of these options are defaults of its turns.
    Session,
}

const fn option(scope: Scope, name: &'static str, allowed: Allowed) -> OptionKey {
    OptionKey {
        name,
        scope,
        allowed,
    }
}

/// Every option, in the order in which errors list them.
#[rustfmt::skip] // a table
pub const OPTIONS: &[OptionKey] = &[
    option(Scope::Request, "max_tokens", Allowed::Tokens),
    option(Scope::Request, "temperature", number(Parameters::TEMPERATURE)),
    option(Scope::Request, "top_k", U32),
    option(Scope::Request, "top_p", number(Parameters::TOP_P)),
    option(Scope::Request, "min_p", number(Parameters::MIN_P)),
    option(Scope::Request, "repetition_penalty", number(Parameters::REPETITION_PENALTY)),
    option(Scope::Request, "seed", whole(0, u64::MAX)),
    option(Scope::Request, "stop", Allowed::Stops),
    option(Scope::Request, "json_schema", Allowed::Schema),
    option(Scope::Request, "schema_lenient", Allowed::Truth),
    option(Scope::Request, "json", Allowed::Truth),
    option(Scope::Request, "regex", Allowed::Schema),
    option(Scope::Request, "grammar", Allowed::Schema),
    option(Scope::Request, "choice", Allowed::Choices),
    option(Scope::Request, "tools", Allowed::Tools),
    option(Scope::Request, "tool_choice", Allowed::ToolChoice),
    option(Scope::Request, "parallel_tool_calls", Allowed::Truth),
    option(Scope::Request, "max_calls", whole(1, MOST_CALLS)),
    option(Scope::Request, "thinking", Allowed::Truth),
    option(Scope::Request, "thinking_tokens", U32),
    option(Scope::Request, "priority", Allowed::Priority),
    option(Scope::Request, "deadline_ms", whole(1, 86_400_000)),
    option(Scope::Request, "logprobs", whole(0, MOST_SCORED as u64)),
    option(Scope::Request, "guess", Allowed::Truth),
    option(Scope::Conversation, "system", Allowed::Text),
    option(Scope::Session, "priority", Allowed::Priority),
    option(Scope::Session, "tools", Allowed::Tools),
    option(Scope::Session, "tool_choice", Allowed::ToolChoice),
    option(Scope::Session, "parallel_tool_calls", Allowed::Truth),
    option(Scope::Session, "max_calls", whole(1, MOST_CALLS)),
    option(Scope::Session, "name", Allowed::Name),
    option(Scope::Session, "persistent", Allowed::Truth),
    option(Scope::Session, "take", Allowed::Truth),
    option(Scope::Session, "keep_pictures", Allowed::Truth),
    option(Scope::Session, "context_overflow", Allowed::Overflow),
    option(Scope::Session, "messages", Allowed::Messages),
    option(Scope::Session, "max_tokens", Allowed::Tokens),
    option(Scope::Session, "temperature", number(Parameters::TEMPERATURE)),
    option(Scope::Session, "top_k", U32),
    option(Scope::Session, "top_p", number(Parameters::TOP_P)),
    option(Scope::Session, "min_p", number(Parameters::MIN_P)),
    option(Scope::Session, "repetition_penalty", number(Parameters::REPETITION_PENALTY)),
    option(Scope::Session, "seed", whole(0, u64::MAX)),
    option(Scope::Session, "thinking", Allowed::Truth),
    option(Scope::Session, "thinking_tokens", U32),
    option(Scope::Session, "logprobs", whole(0, MOST_SCORED as u64)),
    option(Scope::Session, "guess", Allowed::Truth),
    option(Scope::Completion, "messages", Allowed::Messages),
];

/// Returns the options of calls of these scopes.
pub(super) fn known(scopes: &[Scope]) -> impl Iterator<Item = &'static OptionKey> {
    OPTIONS.iter().filter(|key| scopes.contains(&key.scope))
}

/// Returns the names of the options of calls of these scopes.
pub(super) fn names(scopes: &[Scope]) -> Vec<&'static str> {
    known(scopes).map(|key| key.name).collect()
}
