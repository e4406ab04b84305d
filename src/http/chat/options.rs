//! The fields of a request that set options, as `front` takes them. `front` checks their values.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::session;
use super::fields::{Given, Object};
use crate::engine::Name;
use crate::front::{GivenOption, GivenOptions, TEXT_BYTES, TEXTS, Value};

/// The options of a request.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) given: GivenOptions,
    /// Options, and the fields that set them, where that is not the usual field.
    pub(super) fields: Vec<(&'static str, &'static str)>,
    /// The session that the request continues.
    pub(super) session: Option<Name>,
}

/// Fields of a request that are options of the same name.
const SAME: [&str; 6] = [
    "temperature",
    "top_p",
    "seed",
    "stop",
    "parallel_tool_calls",
    "max_tokens",
];

impl Options {
    /// Reads the options of a request.
    ///
    /// # Errors
    /// An error names the field whose form is wrong.
    pub(super) fn read(request: &Given<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        for name in SAME {
            if let Some(raw) = request.get(name) {
                options.add(name, raw);
            }
        }
        options.read_max_tokens(request)?;
        options.read_tools(request)?;
        if let Some(raw) = request.get("response_format") {
            options.read_format(raw)?;
        }
        options.read_logprobs(request)?;
        if let Some(raw) = request.get("ganglion") {
            let own = Given::read(Object::Ganglion, "ganglion", raw.get())?;
            for (name, raw) in own.iter() {
                if name == "session" {
                    let text = raw::text(raw).map_err(|why| {
                        let path = "ganglion.session";
                        Error::invalid(Some(path), format!("{path}: {why}"))
                    })?;
                    options.session = Some(session::name(&text)?);
                } else {
                    options.add(name, raw);
                }
            }
        }
        if let Some(raw) = request.get("reasoning_effort") {
            options.read_effort(raw)?;
        }
        Ok(options)
    }

    fn read_max_tokens(&mut self, request: &Given<'_>) -> Result<(), Error> {
        const FIELD: &str = "max_completion_tokens";
        let Some(raw) = request.get(FIELD) else {
            return Ok(());
        };
        match request.get("max_tokens") {
            Some(other) if other.get() != raw.get() => {
                let why = "max_completion_tokens and max_tokens differ; leave one of them out";
                Err(Error::invalid(Some(FIELD), why))
            }
            Some(_) => Ok(()),
            None => {
                self.add("max_tokens", raw);
                self.fields.push(("max_tokens", FIELD));
                Ok(())
            }
        }
    }

    fn read_tools(&mut self, request: &Given<'_>) -> Result<(), Error> {
        if let Some(raw) = request.get("tools") {
            let is_empty = raw::array(raw, 1).is_ok_and(|tools| tools.is_empty());
            match raw::kind(raw) {
                Kind::Array if is_empty => {}
                Kind::Array => self.push("tools", json(raw)),
                _ => self.add("tools", raw),
            }
        }
        let Some(raw) = request.get("tool_choice") else {
            return Ok(());
        };
        let wrong = |why: &str| {
            let why = format!(
                "tool_choice: {why}; allowed is \"none\", \"auto\", \"required\" or {{\"type\": \"function\", \"function\": \
                 {{\"name\": ...}}}}"
            );
            Error::invalid(Some("tool_choice"), why).with_code("invalid_value")
        };
        let choice = match raw::kind(raw) {
            Kind::Text => {
                let choice = raw::text(raw).map_err(|why| wrong(&why))?;
                if !["none", "auto", "required"].contains(&&*choice) {
                    let choice = crate::front::shortened(&choice);
                    return Err(wrong(&format!("it is {choice:?}")));
                }
                choice
            }
            _ => named(raw).map_err(|why| wrong(&why))?.into(),
        };
        self.push("tool_choice", Value::Text(choice.into_owned()));
        Ok(())
    }

    fn read_format(&mut self, raw: &RawValue) -> Result<(), Error> {
        let wrong = |why: &str| {
            let why = format!(
                "response_format: {why}; allowed is {{\"type\": \"text\"}}, {{\"type\": \"json_object\"}} or {{\"type\": \
                 \"json_schema\", \"json_schema\": {{\"name\": ..., \"schema\": ..., \"strict\": true}}}}"
            );
            Error::invalid(Some("response_format"), why).with_code("invalid_value")
        };
        let members = raw::object(raw.get()).map_err(|why| wrong(&why))?;
        let (mut kind, mut of_schema) = (None, None);
        for (name, raw) in members {
            match &*name {
                "type" => kind = Some(raw::text(raw).map_err(|why| wrong(&why))?),
                "json_schema" => of_schema = Some(raw),
                _ => {
                    let name = crate::front::shortened(&name);
                    return Err(wrong(&format!("it has an unknown field {name:?}")));
                }
            }
        }
        match kind.as_deref() {
            Some("text") => Ok(()),
            Some("json_object") => {
                self.push("json", Value::Bool(true));
                Ok(())
            }
            Some("json_schema") => {
                let given = of_schema.ok_or_else(|| wrong("it has no \"json_schema\""))?;
                self.read_schema(given).map_err(|why| wrong(&why))
            }
            Some(kind) => {
                let kind = crate::front::shortened(kind);
                Err(wrong(&format!("its type is {kind:?}")))
            }
            None => Err(wrong("it has no \"type\"")),
        }
    }

    fn read_schema(&mut self, raw: &RawValue) -> Result<(), String> {
        let (mut schema, mut strict) = (None, false);
        for (name, raw) in raw::object(raw.get())? {
            match &*name {
                "schema" => schema = Some(raw),
                "strict" if raw::kind(raw) != Kind::Null => strict = raw::truth(raw)?,
                "name" | "description" | "strict" => {}
                _ => {
                    let name = crate::front::shortened(&name);
                    return Err(format!("\"json_schema\" has an unknown field {name:?}"));
                }
            }
        }
        let schema = schema.ok_or("\"json_schema\" has no \"schema\"")?;
        self.push("json_schema", json(schema));
        // Without `strict`, a schema is followed as far as possible.
        self.push("schema_lenient", Value::Bool(!strict));
        Ok(())
    }

    fn read_logprobs(&mut self, request: &Given<'_>) -> Result<(), Error> {
        let wanted = match request.get("logprobs") {
            Some(raw) => raw::truth(raw).map_err(|why| {
                let why = format!("logprobs: {why}");
                Error::invalid(Some("logprobs"), why).with_code("invalid_type")
            })?,
            None => false,
        };
        match request.get("top_logprobs") {
            Some(raw) if wanted => self.add("logprobs", raw),
            // Some clients always give it.
            Some(raw) if raw.get() == "0" => {}
            Some(_) => {
                let why = "top_logprobs is for answers with probabilities; give \"logprobs\": true";
                return Err(Error::invalid(Some("top_logprobs"), why));
            }
            None if wanted => self.push("logprobs", Value::Whole(0)),
            None => {}
        }
        Ok(())
    }

    fn read_effort(&mut self, raw: &RawValue) -> Result<(), Error> {
        const FIELD: &str = "reasoning_effort";
        let effort = raw::text(raw);
        let thinking = match effort.as_deref() {
            Ok("none" | "minimal") => false,
            Ok("low" | "medium" | "high" | "xhigh" | "max") => true,
            given => {
                let given = match given {
                    Ok(text) => format!("it is {:?}", crate::front::shortened(text)),
                    Err(why) => why.clone(),
                };
                let why = format!(
                    "reasoning_effort: {given}; allowed is \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \
                     \"max\""
                );
                return Err(Error::invalid(Some(FIELD), why).with_code("invalid_value"));
            }
        };
        if self
            .given
            .kept
            .iter()
            .any(|option| option.name == "thinking")
        {
            let why = "reasoning_effort and ganglion.thinking set the same; leave one of them out";
            return Err(Error::invalid(Some(FIELD), why));
        }
        self.push("thinking", Value::Bool(thinking));
        self.fields.push(("thinking", FIELD));
        Ok(())
    }

    /// Adds an option with the value of a field.
    fn add(&mut self, name: &'static str, raw: &RawValue) {
        let value = value(raw);
        let type_name = match &value {
            Value::Other | Value::Texts(_) => raw::kind(raw).name().to_owned(),
            _ => String::new(),
        };
        self.given.kept.push(GivenOption {
            name: name.to_owned(),
            value,
            type_name,
        });
    }

    fn push(&mut self, name: &'static str, value: Value) {
        self.given.kept.push(GivenOption {
            name: name.to_owned(),
            value,
            type_name: String::new(),
        });
    }
}

/// Returns the JSON text of a value.
fn json(raw: &RawValue) -> Value {
    let text = raw.get();
    if text.len() > TEXT_BYTES {
        Value::Long(text.len())
    } else {
        Value::Text(text.to_owned())
    }
}

fn value(raw: &RawValue) -> Value {
    match raw::kind(raw) {
        Kind::Truth => Value::Bool(raw.get() == "true"),
        Kind::Number => number(raw.get()),
        Kind::Text => match raw::text(raw) {
            Ok(text) if text.len() > TEXT_BYTES => Value::Long(text.len()),
            Ok(text) => Value::Text(text.into_owned()),
            Err(_) => Value::Other,
        },
        Kind::Array => {
            let Ok(each) = raw::array(raw, TEXTS) else {
                return Value::Many(TEXTS + 1);
            };
            let texts = each.into_iter().map(raw::text);
            let texts = texts.map(|text| text.map(std::borrow::Cow::into_owned));
            texts
                .collect::<Result<_, _>>()
                .map_or(Value::Other, Value::Texts)
        }
        Kind::Null | Kind::Object => Value::Other,
    }
}

/// Returns a number: a whole one if it is written as one.
fn number(text: &str) -> Value {
    match (text.parse(), text.parse()) {
        (Ok(whole), _) => Value::Whole(whole),
        (Err(_), Ok(number)) => Value::Number(number),
        (Err(_), Err(_)) => Value::Other,
    }
}

/// Returns the name in `{"type": "function", "function": {"name": ...}}`.
fn named(raw: &RawValue) -> Result<String, String> {
    let (mut kind, mut function) = (None, None);
    for (name, raw) in raw::object(raw.get())? {
        match &*name {
            "type" => kind = Some(raw::text(raw)?),
            "function" => function = Some(raw),
            _ => {}
        }
    }
    if kind.as_deref() != Some("function") {
        let kind = crate::front::shortened(&kind.unwrap_or_default());
        return Err(format!("its type is {kind:?}"));
    }
    let function = function.ok_or("it has no \"function\"")?;
    let members = raw::object(function.get())?;
    let name = members.into_iter().find(|(name, _)| name == "name");
    let (_, name) = name.ok_or("its \"function\" has no \"name\"")?;
    let name = raw::text(name)?;
    if ["none", "auto", "required"].contains(&&*name) {
        return Err(format!("no function can be named {name:?}"));
    }
    Ok(name.into_owned())
}
