//! The fields of completions.

use super::super::request::extensions::EXTENSIONS;
use super::super::request::table::Object::{Ganglion, Request, StreamOptions};
use super::super::request::table::Rule::{Ignored, Only, Read, Refused};
use super::super::request::table::{Field, Table, field};

/// All of them.
pub(in crate::http) static TABLE: Table = Table {
    path: "/v1/completions",
    rows: &[REQUEST, EXTENSIONS],
};

#[rustfmt::skip] // a table
const REQUEST: &[Field] = &[
    field(Request, "prompt", Read, "The text that the model continues. Special tokens are spelled as the model's template spells them."),
    field(Request, "model", Read, "The name of the loaded model, the name of its file, \"default\" or \"ganglion\"."),
    field(Request, "stream", Read, "Whether the text comes as server-sent events."),
    field(Request, "stream_options", Read, "Options of the stream."),
    field(Request, "max_tokens", Read, "The most tokens of the text; the default is the configuration's, not 16."),
    field(Request, "temperature", Read, "The default is the model's recommendation or the configuration's, not 1."),
    field(Request, "top_p", Read, "The default is the model's recommendation or the configuration's, not 1."),
    field(Request, "seed", Read, "The same request with the same seed has the same answer."),
    field(Request, "stop", Read, "A text, or an array of up to 16 texts, that end the answer before them."),
    field(Request, "logprobs", Read, "How many of the most probable tokens are listed with each token."),
    field(Request, "ganglion", Read, "The extensions."),
    field(Request, "user", Ignored, "The caller's user is known from its connection or key."),
    field(Request, "n", Only(&["1"]), "A request has one answer. Send it again for another one."),
    field(Request, "best_of", Only(&["1"]), "A request has one answer. Send it again for another one."),
    field(Request, "echo", Only(&["false"]), "The answer is the new text alone."),
    field(Request, "suffix", Only(&["\"\""]), "Write the model's tokens for a text in the middle into the prompt."),
    field(Request, "frequency_penalty", Only(&["0"]), "Give ganglion.repetition_penalty in its place."),
    field(Request, "presence_penalty", Only(&["0"]), "Give ganglion.repetition_penalty in its place."),
    field(Request, "logit_bias", Only(&["{}"]), "Give ganglion.regex, ganglion.grammar or ganglion.choice in its place."),
    field(Request, "top_k", Refused, "Give ganglion.top_k in its place."),
    field(Request, "min_p", Refused, "Give ganglion.min_p in its place."),
    field(Request, "repetition_penalty", Refused, "Give ganglion.repetition_penalty in its place."),
    field(Request, "grammar", Refused, "Give ganglion.grammar in its place, in Lark's syntax."),
    field(Request, "response_format", Refused, "Ask /v1/chat/completions."),
    field(Request, "messages", Refused, "Ask /v1/chat/completions."),
    field(Ganglion, "session", Refused, "Ask /v1/chat/completions."),
    field(Ganglion, "thinking", Refused, "Ask /v1/chat/completions."),
    field(Ganglion, "thinking_tokens", Refused, "Ask /v1/chat/completions."),
    field(Ganglion, "max_calls", Refused, "Ask /v1/chat/completions."),
    field(StreamOptions, "include_usage", Read, "Whether a last chunk has the usage."),
    field(StreamOptions, "include_obfuscation", Ignored, "Chunks are not padded."),
];
