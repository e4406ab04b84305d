//! The table of fields: those that a request may have, what each does, and those that are refused because the answer
//! would not be what they ask for. The manual and the tests read it.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};

/// The object that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Request,
    StreamOptions,
    /// The extensions: the field `ganglion` of a request.
    Ganglion,
    Message,
    /// A part of a message's content.
    Part,
}

/// What a request's field does. Any field may be null, which means that it is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is read.
    Read,
    /// It is accepted with any value and changes nothing.
    Ignored,
    /// It is accepted with one of these values, in JSON, which change nothing; any other value is an error.
    Only(&'static [&'static str]),
    /// It is an error.
    Refused,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub of: Object,
    pub name: &'static str,
    pub rule: Rule,
    /// A sentence: the meaning, or why it is ignored, or what to give in its place.
    pub about: &'static str,
}

const fn field(of: Object, name: &'static str, rule: Rule, about: &'static str) -> Field {
    Field {
        of,
        name,
        rule,
        about,
    }
}

use Object::{Ganglion, Message, Part, Request, StreamOptions};
use Rule::{Ignored, Only, Read, Refused};

/// Every known field, in the order of the manual. A field that is not here is an error.
#[rustfmt::skip] // a table
pub const FIELDS: &[Field] = &[
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
    field(Ganglion, "priority", Read, "\"realtime\", \"normal\" or \"background\"."),
    field(Ganglion, "deadline_ms", Read, "The milliseconds after which the answer ends as it is."),
    field(Ganglion, "session", Read, "The name of a session of the caller's user, which the request continues or begins; messages are then the new ones alone."),
    field(Ganglion, "regex", Read, "A regular expression that the whole answer matches."),
    field(Ganglion, "grammar", Read, "A grammar in Lark's syntax that the answer matches."),
    field(Ganglion, "choice", Read, "Texts, one of which is the answer."),
    field(Ganglion, "top_k", Read, "The number of the most probable tokens that are chosen from; 0 for all."),
    field(Ganglion, "min_p", Read, "The least probability of a token, as a part of the most probable one's."),
    field(Ganglion, "repetition_penalty", Read, "The probability of a token that was there before is divided by it."),
    field(Ganglion, "thinking", Read, "Whether the model thinks before it answers, if its template can switch that."),
    field(Ganglion, "thinking_tokens", Read, "The most tokens of the thoughts."),
    field(Ganglion, "max_calls", Read, "The most calls of tools in one answer."),
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

impl Rule {
    /// Whether a field with this value is accepted.
    fn accepts(self, raw: &RawValue) -> bool {
        match self {
            Self::Read | Self::Ignored => true,
            Self::Only(values) => values.iter().any(|value| is_equal(value, raw.get())),
            Self::Refused => false,
        }
    }
}

/// Whether a short JSON text has this value.
fn is_equal(value: &str, text: &str) -> bool {
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return false;
    }
    let parsed = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    match (parsed(value), parsed(text)) {
        // 0.0 is 0.
        (Some(value), Some(given)) if value.is_number() => value.as_f64() == given.as_f64(),
        (value, given) => value == given,
    }
}

/// The fields of an object that are read, and are not null.
#[derive(Debug)]
pub(in crate::http) struct Given<'a> {
    members: Vec<(&'static str, &'a RawValue)>,
}

impl<'a> Given<'a> {
    /// Returns the fields of an object whose path is `at`; that of the request is empty.
    ///
    /// # Errors
    /// An error names the field that is unknown or refused.
    pub(in crate::http) fn read(of: Object, at: &str, text: &'a str) -> Result<Self, Error> {
        let path = |name: &str| match at {
            "" => name.to_owned(),
            at => format!("{at}.{name}"),
        };
        let at = Some(at).filter(|at| !at.is_empty());
        let members = raw::object(text).map_err(|why| {
            let what = at.unwrap_or("the body");
            Error::invalid(at, format!("{what} is wrong: {why}"))
        })?;
        let mut given = Vec::new();
        for (name, raw) in members {
            let known = FIELDS
                .iter()
                .find(|field| field.of == of && field.name == name);
            let Some(field) = known else {
                let (path, known) = (path(&crate::front::shortened(&name)), names(of));
                let why = format!("unknown field {path:?}; known are {known}");
                return Err(Error::invalid(Some(&path), why).with_code("unknown_parameter"));
            };
            if raw::kind(raw) == Kind::Null {
                continue;
            }
            if !field.rule.accepts(raw) {
                let path = path(field.name);
                let of_value = match field.rule {
                    Only(values) => format!(" other than {}", values.join(", ")),
                    _ => String::new(),
                };
                let why = format!("{path:?}{of_value} is not supported. {}", field.about);
                return Err(Error::invalid(Some(&path), why).with_code("unsupported_parameter"));
            }
            if field.rule == Read {
                given.push((field.name, raw));
            }
        }
        Ok(Self { members: given })
    }

    pub(in crate::http) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.members.iter().find(|(known, _)| *known == name);
        found.map(|(_, raw)| *raw)
    }

    /// Returns all fields, in their order.
    pub(in crate::http) fn iter(&self) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
        self.members.iter().copied()
    }
}

/// Returns the names of the fields of an object that are read.
fn names(of: Object) -> String {
    let read = FIELDS
        .iter()
        .filter(|field| field.of == of && field.rule == Read);
    let names: Vec<_> = read.map(|field| field.name).collect();
    names.join(", ")
}
