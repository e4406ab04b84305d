//! The fields of a request that set options, as `front` takes them. `front` checks their values.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::given::Given;
use super::super::request::options::Options;
use super::fields::TABLE;
use crate::front::{Value, shortened};

/// Fields of a request that are options of the same name.
const SAME: [&str; 6] = [
    "temperature",
    "top_p",
    "seed",
    "stop",
    "parallel_tool_calls",
    "max_tokens",
];

/// Reads the options of a request.
///
/// # Errors
/// An error names the field whose form is wrong.
pub(super) fn options(request: &Given<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    for name in SAME {
        if let Some(raw) = request.get(name) {
            options.add(name, raw);
        }
    }
    read_max_tokens(&mut options, request)?;
    if let Some(raw) = request.get("tools") {
        options.add_tools(raw);
    }
    read_tool_choice(&mut options, request)?;
    if let Some(raw) = request.get("response_format") {
        read_format(&mut options, raw)?;
    }
    read_logprobs(&mut options, request)?;
    options.read_extensions(&TABLE, request)?;
    if let Some(raw) = request.get("reasoning_effort") {
        options.read_effort(raw, "reasoning_effort")?;
    }
    Ok(options)
}

fn read_max_tokens(options: &mut Options, request: &Given<'_>) -> Result<(), Error> {
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
            options.add("max_tokens", raw);
            options.fields.push(("max_tokens", FIELD));
            Ok(())
        }
    }
}

fn read_tool_choice(options: &mut Options, request: &Given<'_>) -> Result<(), Error> {
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
                let choice = shortened(&choice);
                return Err(wrong(&format!("it is {choice:?}")));
            }
            choice
        }
        _ => named(raw).map_err(|why| wrong(&why))?.into(),
    };
    options.push("tool_choice", Value::Text(choice.into_owned()));
    Ok(())
}

fn read_format(options: &mut Options, raw: &RawValue) -> Result<(), Error> {
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
                let name = shortened(&name);
                return Err(wrong(&format!("it has an unknown field {name:?}")));
            }
        }
    }
    match kind.as_deref() {
        Some("text") => Ok(()),
        Some("json_object") => {
            options.push("json", Value::Bool(true));
            Ok(())
        }
        Some("json_schema") => {
            let given = of_schema.ok_or_else(|| wrong("it has no \"json_schema\""))?;
            read_schema(options, given).map_err(|why| wrong(&why))
        }
        Some(kind) => {
            let kind = shortened(kind);
            Err(wrong(&format!("its type is {kind:?}")))
        }
        None => Err(wrong("it has no \"type\"")),
    }
}

fn read_schema(options: &mut Options, raw: &RawValue) -> Result<(), String> {
    let (mut schema, mut strict) = (None, false);
    for (name, raw) in raw::object(raw.get())? {
        match &*name {
            "schema" => schema = Some(raw),
            "strict" if raw::kind(raw) != Kind::Null => strict = raw::truth(raw)?,
            "name" | "description" | "strict" => {}
            _ => {
                let name = shortened(&name);
                return Err(format!("\"json_schema\" has an unknown field {name:?}"));
            }
        }
    }
    let schema = schema.ok_or("\"json_schema\" has no \"schema\"")?;
    options.push_schema(schema, strict);
    Ok(())
}

fn read_logprobs(options: &mut Options, request: &Given<'_>) -> Result<(), Error> {
    let wanted = request.truth("", "logprobs")?;
    options.read_top_logprobs(request, wanted, "\"logprobs\": true")
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
        let kind = shortened(&kind.unwrap_or_default());
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
