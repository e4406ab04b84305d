//! The extensions: the object `ganglion` of a request.

use super::table::Object::Ganglion;
use super::table::Rule::Read;
use super::table::{Field, field};

/// The fields of all endpoints, in the order of the manual.
#[rustfmt::skip] // a table
pub(in crate::http) const EXTENSIONS: &[Field] = &[
    field(Ganglion, "priority", Read, "\"realtime\", \"normal\" or \"background\"."),
    field(Ganglion, "deadline_ms", Read, "The milliseconds after which the answer ends as it is."),
    field(Ganglion, "regex", Read, "A regular expression that the whole answer matches."),
    field(Ganglion, "grammar", Read, "A grammar in Lark's syntax that the answer matches."),
    field(Ganglion, "choice", Read, "Texts, one of which is the answer."),
    field(Ganglion, "top_k", Read, "The number of the most probable tokens that are chosen from; 0 for all."),
    field(Ganglion, "min_p", Read, "The least probability of a token, as a part of the most probable one's."),
    field(Ganglion, "repetition_penalty", Read, "The probability of a token that was there before is divided by it."),
    field(Ganglion, "guess", Read, "Whether steps guess several tokens at once, which changes the speed and not the answer."),
];

/// The fields of endpoints for conversations.
#[rustfmt::skip] // a table
pub(in crate::http) const OF_CONVERSATIONS: &[Field] = &[
    field(Ganglion, "session", Read, "The name of a session of the caller's user, which the request continues or begins; messages are then the new ones alone."),
    field(Ganglion, "thinking", Read, "Whether the model thinks before it answers, if its template can switch that."),
    field(Ganglion, "thinking_tokens", Read, "The most tokens of the thoughts."),
    field(Ganglion, "max_calls", Read, "The most calls of tools in one answer."),
];

/// The field of endpoints that have no field of their own for a seed.
pub(in crate::http) const SEED: &[Field] = &[field(
    Ganglion,
    "seed",
    Read,
    "The same request with the same seed has the same answer.",
)];
