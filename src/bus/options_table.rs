//! The table of options as the manual prints it: each with its D-Bus type, its allowed values and its meaning.

use std::fmt::{self, Display};

use crate::front::{self, Scope};

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

/// The calls that take an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All methods that make a request.
    Requests,
    /// Methods that return a pipe.
    Streams,
    /// `Submit` and `SubmitReply`.
    Submissions,
    /// `Complete`.
    Completions,
    /// `OpenSession` and `Complete`.
    Beginnings,
    /// `OpenSession`.
    Sessions,
}

/// The values that an option may have; displayed with their D-Bus types, as errors and the manual show them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// The values of an option of all front ends.
    Shared(front::Allowed),
    Stream,
    Signals,
}

/// Returns an option of all front ends; the build fails if `front` does not have it.
const fn option(of: Of, name: &'static str, what: &'static str) -> OptionKey {
    let scope = match of {
        Of::Requests => Scope::Request,
        Of::Beginnings => Scope::Conversation,
        Of::Completions => Scope::Completion,
        Of::Sessions => Scope::Session,
        Of::Streams | Of::Submissions => panic!("an option of D-Bus alone"),
    };
    let mut at = 0;
    while at < front::OPTIONS.len() {
        let key = &front::OPTIONS[at];
        if key.scope as u8 == scope as u8 && is_same(key.name, name) {
            return OptionKey {
                name,
                kind: kind(key.allowed),
                of,
                allowed: Allowed::Shared(key.allowed),
                what,
            };
        }
        at += 1;
    }
    panic!("no front end has this option")
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Returns the D-Bus type of these values.
const fn kind(allowed: front::Allowed) -> &'static str {
    use front::Allowed;
    match allowed {
        Allowed::Whole { most, .. } if most > u32::MAX as u64 => "t",
        Allowed::Tokens | Allowed::Whole { .. } => "u",
        Allowed::Number { .. } => "d",
        Allowed::Truth => "b",
        Allowed::Stops => "s or as",
        Allowed::Choices => "as",
        Allowed::Tools => "s or a(ssa{sv})",
        Allowed::Messages => "a(sa{sv})",
        Allowed::Priority
        | Allowed::Text
        | Allowed::Name
        | Allowed::Overflow
        | Allowed::Schema
        | Allowed::ToolChoice => "s",
    }
}

/// Every option.
#[rustfmt::skip] // a table
pub const OPTIONS: &[OptionKey] = &[
    option(Of::Requests, "max_tokens",
        "The most tokens of thoughts and answer together."),
    option(Of::Requests, "temperature",
        "0 always chooses the most probable token; a higher value chooses less probable ones more often."),
    option(Of::Requests, "top_k",
        "Keep this many of the most probable tokens; 0 keeps all."),
    option(Of::Requests, "top_p",
        "Keep the most probable tokens up to this probability; 1 keeps all."),
    option(Of::Requests, "min_p",
        "Drop tokens less probable than this share of the most probable one; 0 keeps all."),
    option(Of::Requests, "repetition_penalty",
        "Above 1, tokens of the text so far become less probable."),
    option(Of::Requests, "seed",
        "The same seed, request and model give the same answer; usage reports the seed."),
    option(Of::Requests, "stop",
        "Texts that end the answer where they appear."),
    option(Of::Requests, "json_schema",
        "A JSON Schema: the answer is JSON, on one line, that it accepts. The manual lists the supported keywords."),
    option(Of::Requests, "schema_lenient",
        "Whether keywords of json_schema and tools that cannot be enforced are left unchecked, and listed in the result as \
         unchecked. Otherwise they are refused, except in tools that the model need not call."),
    option(Of::Requests, "json",
        "Whether the answer is a JSON object, with any members."),
    option(Of::Requests, "regex",
        "A regular expression that the whole answer matches."),
    option(Of::Requests, "grammar",
        "A grammar in the syntax of Lark; its rule start is the answer."),
    option(Of::Requests, "choice",
        "The answer is one of these texts."),
    option(Of::Requests, "tools",
        "The tools that the model may call. The answer is text, then calls whose arguments fit, in the model's own format. \
         finish_reason is then \"tool_calls\"."),
    option(Of::Requests, "tool_choice",
        "Whether the model calls or answers (auto), answers (none), or calls a tool (required). The name of a tool means exactly \
         one call of it."),
    option(Of::Requests, "parallel_tool_calls",
        "Whether one answer may have more than one call."),
    option(Of::Requests, "max_calls",
        "The most calls of one answer. parallel_tool_calls=false and the name of a tool as tool_choice mean one call."),
    option(Of::Requests, "thinking",
        "Whether the model thinks before it answers, if it can; Manager.Model says whether it can. Thoughts count as tokens \
         of max_tokens."),
    option(Of::Requests, "thinking_tokens",
        "The most tokens that the model thinks before it answers; longer thoughts are ended there."),
    option(Of::Requests, "priority",
        "The order of requests. \"realtime\", for root and the group of limits.realtime_group, suspends \"background\"."),
    option(Of::Requests, "deadline_ms",
        "The milliseconds, time in the queue included, after which the answer ends with its text so far. finish_reason is then \
         \"deadline\"."),
    option(Of::Requests, "logprobs",
        "The logarithm of the probability of each token, as the model alone computes it, and those of this many of the most \
         probable tokens: in frames of the pipe, or else in Request.Result and the info of Complete."),
    option(Of::Requests, "guess",
        "Whether steps guess several tokens of the answer at once (engine.guess). The answer is the same, and may be faster."),
    OptionKey {
        name: "stream",
        kind: "s",
        of: Of::Streams,
        allowed: Allowed::Stream,
        what: "Of Generate, Session.Send and Session.Reply alone: whether the text comes through the pipe or by Request.Delta.",
    },
    OptionKey {
        name: "signals",
        kind: "b",
        of: Of::Submissions,
        allowed: Allowed::Signals,
        what: "Of Submit, Session.Submit and Session.SubmitReply alone: whether the text also comes by Request.Delta.",
    },
    option(Of::Beginnings, "system",
        "Of OpenSession and Complete alone: the system message of the conversation."),
    option(Of::Sessions, "priority",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "tools",
        "Of OpenSession: the default of the session's turns. A turn that constrains its answer has no tools, and a turn with \
         tools takes no stop. An empty text removes the tools of a session with a name."),
    option(Of::Sessions, "tool_choice",
        "Of OpenSession: the default of the session's turns, for the tools of the session."),
    option(Of::Sessions, "parallel_tool_calls",
        "Of OpenSession: the default of the session's turns, for the tools of the session."),
    option(Of::Sessions, "max_calls",
        "Of OpenSession: the default of the session's turns, for the tools of the session."),
    option(Of::Sessions, "name",
        "Of OpenSession: the name of the session. It then belongs to the user; a session of this name is resumed."),
    option(Of::Sessions, "persistent",
        "Of OpenSession, with name: whether the session is stored on disk."),
    option(Of::Sessions, "take",
        "Of OpenSession, with name: whether it is taken from the connection that holds it, which ends that connection's turn."),
    option(Of::Sessions, "keep_pictures",
        "Of OpenSession, with name: whether the file of the session has the images of its messages, and not only their places. \
         Otherwise they are lost when the session leaves memory."),
    option(Of::Sessions, "context_overflow",
        "Of OpenSession: what happens to a turn that exceeds the context. It is refused with Error.ContextFull (error), or the \
         oldest turns are dropped until a quarter of the context is free (truncate_oldest). ganglionctl creates sessions with \
         truncate_oldest."),
    option(Of::Sessions, "messages",
        "Of OpenSession: the messages before the first turn."),
    option(Of::Sessions, "max_tokens",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "temperature",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "top_k",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "top_p",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "min_p",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "repetition_penalty",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "seed",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "thinking",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "thinking_tokens",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "logprobs",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Sessions, "guess",
        "Of OpenSession: the default of the session's turns."),
    option(Of::Completions, "messages",
        "Of Complete alone: the messages before the prompt. With an empty prompt they are the whole conversation."),
];

impl Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use front::Allowed;
        let shared = match self {
            Self::Stream => return formatter.write_str("\"pipe\" or \"signals\" (s)"),
            Self::Signals => Allowed::Truth,
            Self::Shared(shared) => *shared,
        };
        match shared {
            Allowed::Tokens | Allowed::Whole { .. } => {
                formatter.write_str(&shared.describe("u, i, t or x"))
            }
            Allowed::Number { .. } => formatter.write_str(&shared.describe("d, or a whole one")),
            Allowed::Tools => formatter.write_str(
                "a JSON array (s) of {\"type\": \"function\", \"function\": {\"name\", \"description\", \"parameters\"}}, the \
                 parameters a JSON Schema, or these three without JSON (a(ssa{sv})), of at most limits.grammar_bytes",
            ),
            Allowed::Messages => {
                write!(formatter, "{}, as those of Generate", shared.describe(kind(shared)))
            }
            _ => formatter.write_str(&shared.describe(kind(shared))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_front_ends_is_in_the_table() {
        let of_bus = OPTIONS
            .iter()
            .filter(|key| matches!(key.allowed, Allowed::Shared(_)));
        assert_eq!(of_bus.count(), front::OPTIONS.len());
    }
}
