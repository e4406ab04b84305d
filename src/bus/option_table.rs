//! The table of options: which there are, which calls take them, and what they may be. `options` reads them, and the manual
//! prints it.

use std::fmt::{self, Display};

use super::argument::TEXTS;
use crate::sampler::Parameters;

/// Tokens that are told with each.
const MOST_SCORED: u64 = crate::sampler::MOST_SCORED as u64;

/// The largest bound of the calls of one answer.
const MOST_CALLS: u64 = 128;

/// Texts that may end an answer, and bytes of each.
pub(super) const STOPS: usize = 16;
pub(super) const STOP_BYTES: usize = 1024;

/// An option of a call.
#[derive(Debug)]
pub struct OptionKey {
    pub name: &'static str,
    /// Its D-Bus type.
    pub kind: &'static str,
    pub of: Of,
    pub allowed: Allowed,
    pub what: &'static str,
}

/// Which calls take an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All calls that ask take it.
    Requests,
    /// Calls that answer by a stream take it.
    Streams,
    /// Calls whose answer is read by calls take it.
    Submissions,
    /// `Complete`.
    Completions,
    /// Calls that begin a conversation take it: `OpenSession` and `Complete`.
    Beginnings,
    /// `OpenSession`.
    Sessions,
}

/// What an option may be. It is displayed as errors and the manual say it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// As many as the configuration allows.
    Tokens,
    Whole {
        least: u64,
        most: u64,
    },
    Number {
        least: f32,
        most: f32,
    },
    Truth,
    Stops,
    Stream,
    Priority,
    Text,
    Name,
    Overflow,
    Schema,
    Choices,
    Tools,
    ToolChoice,
    Messages,
}

const fn option(
    of: Of,
    name: &'static str,
    kind: &'static str,
    allowed: Allowed,
    what: &'static str,
) -> OptionKey {
    OptionKey {
        name,
        kind,
        of,
        allowed,
        what,
    }
}

pub(super) const fn whole(least: u64, most: u64) -> Allowed {
    Allowed::Whole { least, most }
}

const fn number([least, most]: [f32; 2]) -> Allowed {
    Allowed::Number { least, most }
}

/// Every option, in the order in which they are told.
#[rustfmt::skip] // a table
pub const OPTIONS: &[OptionKey] = &[
    option(Of::Requests, "max_tokens", "u", Allowed::Tokens,
        "The most tokens of the answer."),
    option(Of::Requests, "temperature", "d", number(Parameters::TEMPERATURE),
        "How far from the most probable token others may be chosen; with 0 none is."),
    option(Of::Requests, "top_k", "u", whole(0, 0xFFFF_FFFF),
        "Keep this many of the most probable tokens; 0 keeps all."),
    option(Of::Requests, "top_p", "d", number(Parameters::TOP_P),
        "Keep the most probable tokens up to this probability; 1 keeps all."),
    option(Of::Requests, "min_p", "d", number(Parameters::MIN_P),
        "Drop tokens less probable than this share of the most probable one; 0 keeps all."),
    option(Of::Requests, "repetition_penalty", "d", number(Parameters::REPETITION_PENALTY),
        "Above 1, tokens of the text so far become less probable."),
    option(Of::Requests, "seed", "t", whole(0, u64::MAX),
        "The same seed, request and model give the same answer. Without one sampling.seed, or else a fresh one, which \
         usage tells."),
    option(Of::Requests, "stop", "s or as", Allowed::Stops,
        "What ends the answer where it appears."),
    option(Of::Requests, "json_schema", "s", Allowed::Schema,
        "A JSON Schema: the answer is JSON, on one line, that it accepts. What it may hold is in the manual."),
    option(Of::Requests, "schema_lenient", "b", Allowed::Truth,
        "Whether keywords of json_schema and tools that cannot be enforced are left unchecked, and listed in the result as \
         unchecked; without it they are refused, but for those of tools that the model need not call."),
    option(Of::Requests, "json", "b", Allowed::Truth,
        "Whether the answer is a JSON object, of whatever members."),
    option(Of::Requests, "regex", "s", Allowed::Schema,
        "A regular expression that the whole answer matches."),
    option(Of::Requests, "grammar", "s", Allowed::Schema,
        "A grammar in the syntax of Lark, whose start is the answer."),
    option(Of::Requests, "choice", "as", Allowed::Choices,
        "The texts of which the answer is one."),
    option(Of::Requests, "tools", "s or a(ssa{sv})", Allowed::Tools,
        "What the model may call, and how: its answer is text, then calls whose arguments fit, in the own format of the model. \
         finish_reason is then \"tool_calls\"."),
    option(Of::Requests, "tool_choice", "s", Allowed::ToolChoice,
        "Whether the model calls or answers (auto), answers (none), or calls a tool (required). The name of a tool means exactly \
         one call of it."),
    option(Of::Requests, "parallel_tool_calls", "b", Allowed::Truth,
        "Whether one answer may call more than once, which it may unless this is false."),
    option(Of::Requests, "max_calls", "u", whole(1, MOST_CALLS),
        "The most calls of one answer. parallel_tool_calls=false and the name of a tool as tool_choice mean one call."),
    option(Of::Requests, "thinking", "b", Allowed::Truth,
        "Whether a model that can think before it answers does; Manager.Model tells whether it can."),
    option(Of::Requests, "thinking_tokens", "u", whole(0, 0xFFFF_FFFF),
        "The most tokens that a model thinks before it answers: what is not at its end by then is ended."),
    option(Of::Requests, "priority", "s", Allowed::Priority,
        "Who comes before whom: \"realtime\", which limits.realtime_group may ask for, makes \"background\" rest where it is."),
    option(Of::Requests, "deadline_ms", "u", whole(1, 86_400_000),
        "The milliseconds after which the answer ends with what there is of it, waiting included; finish_reason is then \
         \"deadline\"."),
    option(Of::Requests, "logprobs", "u", whole(0, MOST_SCORED),
        "The logarithm of the probability of each token, as the model alone sees it, and those of so many of the most probable \
         ones: in frames of the pipe, or else in Request.Result and the info of Complete."),
    option(Of::Streams, "stream", "s", Allowed::Stream,
        "Of Generate, Session.Send and Session.Reply alone: how the text comes, through the pipe or by Request.Delta."),
    option(Of::Submissions, "signals", "b", Allowed::Truth,
        "Of Submit and Session.SubmitReply alone: whether the text also comes by Request.Delta."),
    option(Of::Beginnings, "system", "s", Allowed::Text,
        "Of OpenSession and Complete alone: the system message of the conversation."),
    option(Of::Sessions, "priority", "s", Allowed::Priority,
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "tools", "s or a(ssa{sv})", Allowed::Tools,
        "Of OpenSession: those of each of its turns which offers none, nor gives what its answer must fit. Such a turn takes no \
         stop. An empty text takes away those that a session with a name had."),
    option(Of::Sessions, "tool_choice", "s", Allowed::ToolChoice,
        "Of OpenSession, for the tools of the session: that of each of its turns which gives none."),
    option(Of::Sessions, "parallel_tool_calls", "b", Allowed::Truth,
        "Of OpenSession, for the tools of the session: that of each of its turns which gives none."),
    option(Of::Sessions, "max_calls", "u", whole(1, MOST_CALLS),
        "Of OpenSession, for the tools of the session: that of each of its turns which gives none."),
    option(Of::Sessions, "name", "s", Allowed::Name,
        "Of OpenSession: what the session is called. It belongs to the user then, and is gone on with where it is there."),
    option(Of::Sessions, "persistent", "b", Allowed::Truth,
        "Of OpenSession, beside name: whether the session is kept on disk, which it is unless this is false."),
    option(Of::Sessions, "take", "b", Allowed::Truth,
        "Of OpenSession, beside name: whether it is taken from the connection that holds it, whose turn ends then."),
    option(Of::Sessions, "context_overflow", "s", Allowed::Overflow,
        "Of OpenSession: what becomes of a turn that the context does not hold any more. It is refused with Error.ContextFull, or \
         the oldest turns go until a quarter of the context is free."),
    option(Of::Sessions, "messages", "a(sa{sv})", Allowed::Messages,
        "Of OpenSession: what was said before the first turn."),
    option(Of::Sessions, "max_tokens", "u", Allowed::Tokens,
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "temperature", "d", number(Parameters::TEMPERATURE),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "top_k", "u", whole(0, 0xFFFF_FFFF),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "top_p", "d", number(Parameters::TOP_P),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "min_p", "d", number(Parameters::MIN_P),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "repetition_penalty", "d", number(Parameters::REPETITION_PENALTY),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "seed", "t", whole(0, u64::MAX),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "thinking", "b", Allowed::Truth,
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "thinking_tokens", "u", whole(0, 0xFFFF_FFFF),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Sessions, "logprobs", "u", whole(0, MOST_SCORED),
        "Of OpenSession: that of each of its turns which gives none."),
    option(Of::Completions, "messages", "a(sa{sv})", Allowed::Messages,
        "Of Complete alone: what was said before the prompt. With an empty prompt it is all that was said."),
];

impl Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WHOLE: &str = "a whole number (u, i, t or x)";
        match self {
            Self::Tokens => write!(formatter, "{WHOLE} from 1 to limits.max_tokens"),
            Self::Whole { least, most } => write!(formatter, "{WHOLE} from {least} to {most}"),
            Self::Number { least, most } => {
                write!(
                    formatter,
                    "a number (d, or a whole one) from {least} to {most}"
                )
            }
            Self::Truth => formatter.write_str("true or false (b)"),
            Self::Stops => write!(
                formatter,
                "up to {STOPS} texts (s or as), none empty or longer than {STOP_BYTES} bytes"
            ),
            Self::Stream => formatter.write_str("\"pipe\" or \"signals\" (s)"),
            Self::Priority => formatter.write_str("\"realtime\", \"normal\" or \"background\" (s)"),
            Self::Schema => formatter.write_str(
                "a text (s) of at most limits.grammar_bytes, without stop and with no other of json_schema, json, regex, \
                 grammar and choice",
            ),
            Self::Choices => write!(
                formatter,
                "1 to {TEXTS} texts (as), none empty, of at most limits.grammar_bytes together"
            ),
            Self::Tools => formatter.write_str(
                "a JSON array (s) of {\"type\": \"function\", \"function\": {\"name\", \"description\", \"parameters\"}}, the \
                 parameters a JSON Schema, or these three without JSON (a(ssa{sv})), of at most limits.grammar_bytes",
            ),
            Self::ToolChoice => formatter
                .write_str("\"auto\", \"none\", \"required\" or the name of a tool (s)"),
            Self::Text => formatter.write_str("a text (s)"),
            Self::Overflow => formatter.write_str("\"error\" or \"truncate_oldest\" (s)"),
            Self::Name => formatter.write_str(
                "1 to 64 letters (a to z, A to Z), digits, \"-\", \"_\" and \".\", of which the first is no dot (s)",
            ),
            Self::Messages => formatter.write_str("messages (a(sa{sv})), as those of Generate"),
        }
    }
}
