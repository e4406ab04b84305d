//! The options of one answer, as `ask` and `chat` accept them.

use std::str::FromStr;
use std::{fs, io};

use clap::Args;
use ganglion::bus::proxy::Fields;
use ganglion::bus::{OPTIONS, Of, OptionKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zbus::Variant;

use super::info::plain;
use crate::view;

/// Options of an answer. The daemon's configuration has the defaults, and the daemon checks every value.
#[derive(Clone, Debug, Default, Args, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Options {
    /// End the answer after this many tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    max_tokens: Option<u32>,
    /// 0 always takes the most probable token; higher is more varied
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = number)]
    temperature: Option<f64>,
    /// Choose among the K most probable tokens
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole::<u32>)]
    top_k: Option<u32>,
    /// Choose among the most probable tokens that together reach P
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number)]
    top_p: Option<f64>,
    /// Leave out tokens less probable than P times the most probable one
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number)]
    min_p: Option<f64>,
    /// Make recent tokens less likely; 1 changes nothing
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = number)]
    repetition_penalty: Option<f64>,
    /// The same seed, options and text give the same answer
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// End the answer before this text; may be given again
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Answer in JSON that the JSON Schema in this file accepts
    #[arg(long, value_name = "FILE", value_parser = file)]
    #[serde(rename = "json_schema")]
    schema: Option<String>,
    /// Ignore keywords of schemas that cannot be enforced, and list them
    #[arg(long, num_args = 0, default_missing_value = "true")]
    schema_lenient: Option<bool>,
    /// Answer with a JSON object
    #[arg(long, num_args = 0, default_missing_value = "true")]
    #[serde(rename = "json")]
    json_object: Option<bool>,
    /// Answer with a text that this regular expression matches
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Answer with a text that the grammar in this file allows; its syntax is Lark's, and it begins with start
    #[arg(long, value_name = "FILE", value_parser = file)]
    grammar: Option<String>,
    /// Answer with one of these texts; give it once for each
    #[arg(long, value_name = "TEXT")]
    choice: Vec<String>,
    /// A file with the tools that the model may call: a JSON array in the form of OpenAI's API
    #[arg(long, value_name = "FILE", value_parser = file)]
    tools: Option<String>,
    /// Whether the model calls: auto, none, required, or the name of a tool
    #[arg(long, value_name = "CHOICE")]
    tool_choice: Option<String>,
    /// Let it call one tool at a time
    #[arg(long = "one-call", num_args = 0, default_missing_value = "false")]
    parallel_tool_calls: Option<bool>,
    /// Let one answer call at most N times
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    max_calls: Option<u32>,
    /// The priority: realtime (for a group that the daemon's configuration names), normal or background
    #[arg(long, value_name = "P")]
    priority: Option<String>,
    /// End the answer after this many milliseconds, including the time in the queue, with the text so far
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u32>)]
    deadline_ms: Option<u32>,
    /// Guess several tokens at once, for speed; the answer stays the same
    #[arg(long, value_name = "TRUTH", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    guess: Option<bool>,
    /// Let a model that can think do so before it answers
    #[arg(long, overrides_with = "no_thinking")]
    #[serde(skip)]
    thinking: bool,
    /// End its thoughts after this many tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    thinking_tokens: Option<u32>,
    /// Let it answer at once
    #[arg(long, overrides_with = "thinking")]
    #[serde(skip)]
    no_thinking: bool,
}

impl Options {
    /// Returns the options that were given, by their names on the bus.
    fn given(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut given)) = serde_json::to_value(self) else {
            return Map::new();
        };
        if self.thinking || self.no_thinking {
            given.insert("thinking".into(), self.thinking.into());
        }
        given.retain(|_, value| !value.is_null() && value.as_array() != Some(&Vec::new()));
        given
    }

    /// Returns the options as D-Bus carries them.
    pub(crate) fn fields(&self) -> Fields<'static> {
        let given = self.given();
        let names = OPTIONS.iter().map(|key| key.name);
        names
            .filter_map(|name| Some((name, variant(given.get(name)?))))
            .collect()
    }

    /// Whether the request yields to all others, and to each hold.
    pub(crate) fn is_background(&self) -> bool {
        self.priority.as_deref() == Some("background")
    }

    /// Whether the answer begins with thoughts.
    pub(crate) const fn wants_thinking(&self) -> bool {
        self.thinking
    }

    /// Leaves further calls to the model, after it has made the required ones.
    pub(crate) fn choose_freely(&mut self) {
        if self.tool_choice.as_deref() != Some("none") {
            self.tool_choice = None;
        }
    }

    /// Formats the options as a table, with a further row at its end.
    pub(crate) fn table(&self, last: (&str, &str)) -> String {
        let given = self.given();
        let names = known().map(|key| key.name);
        let rows = names.map(|name| {
            let value = match given.get(name) {
                Some(Value::Array(texts)) => texts.iter().map(plain).collect::<Vec<_>>().join(", "),
                value => value.map(plain).unwrap_or_default(),
            };
            (name.into(), value)
        });
        view::named(rows.chain([(last.0.into(), last.1.into())]))
    }

    /// Sets an option by its name on the bus; without a value it is reset to the configuration's.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let Some(key) = known().find(|key| key.name == name) else {
            let names: Vec<_> = known().map(|key| key.name).collect();
            return Err(format!("it must be one of {}", names.join(", ")));
        };
        let value = value.map(|text| match key.kind {
            "u" => whole::<u32>(text).map(Value::from),
            "t" => whole::<u64>(text).map(Value::from),
            "d" => number(text).map(Value::from),
            "b" => truth(text).map(Value::from),
            // The first of several texts.
            kind if kind.ends_with("as") => Ok(vec![text].into()),
            _ => Ok(text.into()),
        });
        let mut given = self.given();
        given.remove(name);
        if let Some(value) = value.transpose()? {
            given.insert(name.into(), value);
        }
        let thinking = given.remove("thinking");
        *self = serde_json::from_value(given.into()).map_err(|error| error.to_string())?;
        self.thinking = thinking == Some(true.into());
        self.no_thinking = thinking == Some(false.into());
        Ok(())
    }
}

/// Returns the options of every request, except the one for logprobs, which only `ask` has.
fn known() -> impl Iterator<Item = &'static OptionKey> {
    let requests = OPTIONS.iter().filter(|key| key.of == Of::Requests);
    requests.filter(|key| key.name != "logprobs")
}

fn variant(value: &Value) -> Variant<'static> {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(value) => match value.as_u64() {
            Some(whole) => whole.into(),
            None => value.as_f64().unwrap_or_default().into(),
        },
        Value::Array(texts) => texts.iter().map(plain).collect::<Vec<_>>().into(),
        text => plain(text).into(),
    }
}

/// Reads a file; - is standard input.
fn file(path: &str) -> Result<String, String> {
    let text = match path {
        "-" => io::read_to_string(io::stdin()),
        _ => fs::read_to_string(path),
    };
    text.map_err(|error| error.to_string())
}

/// Parses a whole number. A negative one is an invalid value and not an unknown option.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let most = u128::MAX >> (128 - 8 * size_of::<T>());
    text.parse()
        .map_err(|_| format!("it must be a whole number from 0 to {most}"))
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "it must be a number".into())
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "it must be true or false".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_can_be_set_and_reset() {
        for key in known() {
            let value = match key.kind {
                "u" | "t" => "1",
                "d" => "0.5",
                "b" => "true",
                _ => "x",
            };
            let mut options = Options::default();
            assert_eq!(options.set(key.name, Some(value)), Ok(()));
            let given: Vec<_> = options.fields().into_keys().collect();
            assert_eq!(given, [key.name]);
            assert_eq!(options.set(key.name, None), Ok(()));
            assert!(options.fields().is_empty(), "{}", key.name);
        }
    }
}
