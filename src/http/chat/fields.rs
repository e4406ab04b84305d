//! The fields of chat completions.

use super::super::request::extensions::{EXTENSIONS, OF_CONVERSATIONS};
use super::super::request::table::Object::{Message, Part, Request, StreamOptions};
use super::super::request::table::Rule::{Ignored, Only, Read, Refused};
use super::super::request::table::{Field, Table, field};

/// All of them.
pub(in crate::http) static TABLE: Table = Table {
    path: "/v1/chat/completions",
    rows: &[REQUEST, EXTENSIONS, OF_CONVERSATIONS, MESSAGES],
};

#[rustfmt::skip] // a table
const REQUEST: &[Field] = &[
    field(Request, "messages", Read, "The conversation; the last message is by \"user\" or \"tool\"."),
    field(Request, "model", Read, "The name of the loaded model, the name of its file, \"default\" or \"ganglion\"."),
    field(Request, "stream", Read, "Whether the answer comes as server-sent events."),
    field(Request, "stream_options", Read, "Options of the stream."),
    field(Request, "max_completion_tokens", Read, "The most tokens of the answer, thoughts included."),
    field(Request, "max_tokens", Read, "The older name of max_completion_tokens."),
    field(Request, "temperature", Read, "The default is the model's recommendation or the configuration's, not 1."),
    field(Request, "top_p", Read, "The default is the model's recommendation or the configuration's, not 1."),
    field(Request, "seed", Read, "The same request with the same seed has the same answer."),
    field(Request, "stop", Read, "A text, or an array of up to 16 texts, that end the answer before them; not with tools or a format."),
    field(Request, "tools", Read, "The functions that the model may call; their arguments always match their schemas."),
    field(Request, "tool_choice", Read, "\"none\", \"auto\", \"required\", or one function."),
    field(Request, "parallel_tool_calls", Read, "Whether one answer may have several calls."),
    field(Request, "response_format", Read, "text, json_object or json_schema; without \"strict\" keywords that cannot be enforced are listed in ganglion.unchecked."),
    field(Request, "logprobs", Read, "Whether the answer has the probability of each token, those of thoughts included."),
    field(Request, "top_logprobs", Read, "How many of the most probable tokens are listed with each token; with logprobs."),
    field(Request, "reasoning_effort", Read, "\"none\" and \"minimal\" switch thoughts off, all others on, if the model's template can."),
    field(Request, "ganglion", Read, "The extensions."),
    field(Request, "user", Ignored, "The caller's user is known from its connection or key."),
    field(Request, "metadata", Ignored, "Nothing is stored."),
    field(Request, "service_tier", Ignored, "Give ganglion.priority."),
    field(Request, "safety_identifier", Ignored, "The caller's user is known from its connection or key."),
    field(Request, "prompt_cache_key", Ignored, "The cache finds equal beginnings by itself."),
    field(Request, "prompt_cache_options", Ignored, "The cache finds equal beginnings by itself."),
    field(Request, "prompt_cache_retention", Ignored, "The cache finds equal beginnings by itself."),
    field(Request, "n", Only(&["1"]), "A request has one answer. Send it again for another one."),
    field(Request, "store", Only(&["false"]), "Answers are not stored. Leave it out, or open a session by ganglion.session."),
    field(Request, "frequency_penalty", Only(&["0"]), "Give ganglion.repetition_penalty in its place."),
    field(Request, "presence_penalty", Only(&["0"]), "Give ganglion.repetition_penalty in its place."),
    field(Request, "logit_bias", Only(&["{}"]), "Give response_format, ganglion.regex, ganglion.grammar or ganglion.choice in its place."),
    field(Request, "modalities", Only(&["[\"text\"]"]), "Answers are text."),
    field(Request, "verbosity", Only(&["\"medium\""]), "Ask for the length in a message."),
    field(Request, "audio", Refused, "Answers are text."),
    field(Request, "prediction", Refused, "Predicted outputs are not supported."),
    field(Request, "web_search_options", Refused, "The daemon has no network. Offer a search as one of the tools."),
    field(Request, "moderation", Refused, "Nothing is moderated."),
    field(Request, "functions", Refused, "Give tools in its place."),
    field(Request, "function_call", Refused, "Give tool_choice in its place."),
    field(Request, "top_k", Refused, "Give ganglion.top_k in its place."),
    field(Request, "min_p", Refused, "Give ganglion.min_p in its place."),
    field(Request, "repetition_penalty", Refused, "Give ganglion.repetition_penalty in its place."),
    field(Request, "grammar", Refused, "Give ganglion.grammar in its place, in Lark's syntax."),
    field(Request, "chat_template_kwargs", Refused, "Give ganglion.thinking or reasoning_effort in its place."),
    field(StreamOptions, "include_usage", Read, "Whether a last chunk has the usage."),
    field(StreamOptions, "include_obfuscation", Ignored, "Chunks are not padded."),
];

#[rustfmt::skip] // a table
const MESSAGES: &[Field] = &[
    field(Message, "role", Read, "\"system\", \"developer\" (the same), \"user\", \"assistant\" or \"tool\"."),
    field(Message, "content", Read, "A text, or an array of parts."),
    field(Message, "reasoning_content", Read, "The assistant's thoughts before the content."),
    field(Message, "tool_calls", Read, "The assistant's calls."),
    field(Message, "tool_call_id", Read, "The id of the call that a tool's message answers."),
    field(Message, "name", Ignored, "Chat templates have no names of authors."),
    field(Message, "annotations", Ignored, "Answers of other services have it."),
    field(Message, "refusal", Refused, "Give it as content."),
    field(Message, "audio", Refused, "Answers are text."),
    field(Message, "function_call", Refused, "Give tool_calls in its place."),
    field(Part, "type", Read, "\"text\" or \"image_url\"."),
    field(Part, "text", Read, "A text."),
    field(Part, "image_url", Read, "An object whose \"url\" is data:image/jpeg, image/png or image/webp in base64; its \"detail\" is ignored."),
    field(Part, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Part, "prompt_cache_breakpoint", Ignored, "The cache finds equal beginnings by itself."),
];
