//! The fields of a request that set options, as `front` takes them. `front` checks their values.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::given::Given;
use super::super::request::options::Options;
use super::super::request::table::Object;
use super::super::request::tools::ToolForm;
use super::fields::TABLE;
use crate::front::{TEXTS, Value, shortened};

/// Fields of a request, and the options that they are.
const SAME: [(&str, &str); 4] = [
    ("max_output_tokens", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("parallel_tool_calls", "parallel_tool_calls"),
];

const TOOLS: ToolForm = ToolForm {
    table: &TABLE,
    kind: "function",
    is_default: false,
    schema: "parameters",
};

/// What a request may include that changes the answer.
const LOGPROBS: &str = "message.output_text.logprobs";
/// What it may include that changes nothing.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Reads the options of a request.
///
/// # Errors
/// An error names the field whose form is wrong.
pub(super) fn options(request: &Given<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    for (field, option) in SAME {
        if let Some(raw) = request.get(field) {
            options.add(option, raw);
        }
    }
    if let Some(raw) = request.get("tools")
        && let Some(tools) = TOOLS.read(raw)?
    {
        options.push_json("tools", &tools);
    }
    if let Some(raw) = request.get("tool_choice") {
        let choice = tool_choice(raw)?;
        options.push("tool_choice", Value::Text(choice));
    }
    if let Some(raw) = request.get("text") {
        let text = Given::read(&TABLE, Object::Output, "text", raw.get())?;
        if let Some(raw) = text.get("format") {
            read_format(&mut options, raw)?;
        }
    }
    let wanted = match request.get("include") {
        Some(raw) => includes_logprobs(raw)?,
        None => false,
    };
    options.read_top_logprobs(request, wanted, &format!("\"include\": [{LOGPROBS:?}]"))?;
    options.read_extensions(&TABLE, request)?;
    if let Some(raw) = request.get("reasoning") {
        let reasoning = Given::read(&TABLE, Object::Thinking, "reasoning", raw.get())?;
        if let Some(raw) = reasoning.get("effort") {
            options.read_effort(raw, "reasoning.effort")?;
        }
    }
    Ok(options)
}

fn wrong(path: &str, why: &str) -> Error {
    Error::invalid(Some(path), format!("{path}: {why}")).with_code("invalid_value")
}

/// Returns the choice as the engine has it: a word, or the name of a function.
fn tool_choice(raw: &RawValue) -> Result<String, Error> {
    const AT: &str = "tool_choice";
    const WORDS: [&str; 3] = ["none", "auto", "required"];
    let allowed =
        "allowed is \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"name\": ...}";
    let refused = |why: &str| wrong(AT, &format!("{why}; {allowed}"));
    if raw::kind(raw) == Kind::Text {
        let choice = raw::text(raw).map_err(|why| refused(&why))?;
        if WORDS.contains(&&*choice) {
            return Ok(choice.into_owned());
        }
        return Err(refused(&format!("it is {:?}", shortened(&choice))));
    }
    let members = raw::object(raw.get()).map_err(|why| refused(&why))?;
    let kind = members.iter().find(|(name, _)| name == "type");
    let kind = kind.and_then(|(_, raw)| raw::text(raw).ok());
    let kind = kind.unwrap_or_default();
    if kind != "function" {
        return Err(refused(&format!("its type is {:?}", shortened(&kind))));
    }
    let given = Given::read(&TABLE, Object::ToolChoice, AT, raw.get())?;
    let name = given
        .get("name")
        .ok_or_else(|| refused("it has no \"name\""))?;
    let name = raw::text(name).map_err(|why| refused(&why))?;
    if WORDS.contains(&&*name) {
        return Err(refused(&format!("no function can be named {name:?}")));
    }
    Ok(name.into_owned())
}

fn read_format(options: &mut Options, raw: &RawValue) -> Result<(), Error> {
    const AT: &str = "text.format";
    let given = Given::read(&TABLE, Object::Format, AT, raw.get())?;
    let kind = given.get("type").map(raw::text).transpose();
    let kind = kind.map_err(|why| wrong("text.format.type", &why))?;
    match kind.as_deref() {
        Some("text") => Ok(()),
        Some("json_object") => {
            options.push("json", Value::Bool(true));
            Ok(())
        }
        Some("json_schema") => {
            let schema = given.get("schema");
            let schema = schema.ok_or_else(|| wrong(AT, "it has no \"schema\""))?;
            options.push_schema(schema, given.truth("text.format.", "strict")?);
            Ok(())
        }
        kind => {
            let kind = shortened(kind.unwrap_or_default());
            let why = format!(
                "its type is {kind:?}; allowed is \"text\", \"json_object\" or \"json_schema\" with \"schema\""
            );
            Err(wrong(AT, &why))
        }
    }
}

/// Returns whether the answer has the probabilities of its tokens.
fn includes_logprobs(raw: &RawValue) -> Result<bool, Error> {
    const AT: &str = "include";
    let mut includes = false;
    let each = raw::array(raw, TEXTS).map_err(|why| wrong(AT, &why))?;
    for raw in each {
        let name = raw::text(raw).map_err(|why| wrong(AT, &why))?;
        match &*name {
            LOGPROBS => includes = true,
            ENCRYPTED => {}
            other => {
                let other = shortened(other);
                let why = format!("it has {other:?}; known are {LOGPROBS:?} and {ENCRYPTED:?}");
                return Err(wrong(AT, &why));
            }
        }
    }
    Ok(includes)
}
