//! The fields of a request that set options, as `front` takes them. `front` checks their values.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::given::Given;
use super::super::request::options::Options;
use super::super::request::table::Object;
use super::super::request::tools::ToolForm;
use super::fields::TABLE;
use crate::front::{Value, shortened};

/// Fields of a request, and the options that they are.
const SAME: [(&str, &str); 5] = [
    ("max_tokens", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("stop_sequences", "stop"),
];

const TOOLS: ToolForm = ToolForm {
    table: &TABLE,
    kind: "custom",
    is_default: true,
    schema: "input_schema",
};

/// Reads the options of a request.
///
/// # Errors
/// An error names the field whose form is wrong.
pub(super) fn options(request: &Given<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    for (field, option) in SAME {
        // Some clients always give an empty array of texts.
        if let Some(raw) = request.get(field).filter(|raw| !is_empty(raw)) {
            options.add(option, raw);
        }
    }
    if let Some(raw) = request.get("tools")
        && let Some(tools) = TOOLS.read(raw)?
    {
        options.push_json("tools", &tools);
    }
    if let Some(raw) = request.get("tool_choice") {
        read_tool_choice(&mut options, raw)?;
    }
    options.read_extensions(&TABLE, request)?;
    let mut has_effort = false;
    if let Some(raw) = request.get("output_config") {
        let config = Given::read(&TABLE, Object::Output, "output_config", raw.get())?;
        if let Some(raw) = config.get("format") {
            read_format(&mut options, raw)?;
        }
        if let Some(raw) = config.get("effort") {
            has_effort = true;
            check_effort(raw)?;
        }
    }
    match request.get("thinking") {
        Some(raw) => read_thinking(&mut options, raw)?,
        None if options.has("thinking") || has_effort => {}
        None => options.push("thinking", Value::Bool(false)),
    }
    Ok(options)
}

fn is_empty(raw: &RawValue) -> bool {
    raw::array(raw, 1).is_ok_and(|each| each.is_empty())
}

fn wrong(path: &str, why: &str) -> Error {
    Error::invalid(Some(path), format!("{path}: {why}")).with_code("invalid_value")
}

/// Returns the text of a field that an object must have.
fn text(given: &Given<'_>, at: &str, name: &str) -> Result<String, Error> {
    let path = format!("{at}.{name}");
    let Some(raw) = given.get(name) else {
        return Err(wrong(&path, "it is missing"));
    };
    let text = raw::text(raw).map_err(|why| wrong(&path, &why))?;
    Ok(text.into_owned())
}

fn read_tool_choice(options: &mut Options, raw: &RawValue) -> Result<(), Error> {
    const AT: &str = "tool_choice";
    let given = Given::read(&TABLE, Object::ToolChoice, AT, raw.get())?;
    let kind = text(&given, AT, "type")?;
    let choice = match &*kind {
        "auto" => "auto".to_owned(),
        "none" => "none".to_owned(),
        "any" => "required".to_owned(),
        "tool" => {
            let name = text(&given, AT, "name")?;
            if ["auto", "none", "required"].contains(&&*name) {
                let why = format!("no tool can be named {name:?}");
                return Err(wrong("tool_choice.name", &why));
            }
            name
        }
        other => {
            let why = format!(
                "it is {:?}; allowed is \"auto\", \"any\", \"tool\" or \"none\"",
                shortened(other)
            );
            return Err(wrong("tool_choice.type", &why));
        }
    };
    options.push("tool_choice", Value::Text(choice));
    if given.truth("tool_choice.", "disable_parallel_tool_use")? {
        options.push("parallel_tool_calls", Value::Bool(false));
    }
    Ok(())
}

fn read_thinking(options: &mut Options, raw: &RawValue) -> Result<(), Error> {
    const AT: &str = "thinking";
    const BUDGET: &str = "thinking.budget_tokens";
    let given = Given::read(&TABLE, Object::Thinking, AT, raw.get())?;
    let kind = text(&given, AT, "type")?;
    let thinks = match &*kind {
        "enabled" | "adaptive" => true,
        "disabled" => false,
        other => {
            let why = format!(
                "it is {:?}; allowed is \"enabled\", \"adaptive\" or \"disabled\"",
                shortened(other)
            );
            return Err(wrong("thinking.type", &why));
        }
    };
    options.set_thinking(thinks, AT)?;
    let Some(raw) = given.get("budget_tokens") else {
        return Ok(());
    };
    if !thinks {
        return Err(wrong(BUDGET, "there are no thoughts; leave it out"));
    }
    if options.has("thinking_tokens") {
        let why = "ganglion.thinking_tokens sets the same; leave one of them out";
        return Err(wrong(BUDGET, why));
    }
    options.add("thinking_tokens", raw);
    options.fields.push(("thinking_tokens", BUDGET));
    Ok(())
}

fn read_format(options: &mut Options, raw: &RawValue) -> Result<(), Error> {
    const AT: &str = "output_config.format";
    let given = Given::read(&TABLE, Object::Format, AT, raw.get())?;
    let kind = text(&given, AT, "type")?;
    if kind != "json_schema" {
        let why = format!("it is {:?}; allowed is \"json_schema\"", shortened(&kind));
        return Err(wrong("output_config.format.type", &why));
    }
    let schema = given.get("schema");
    let schema = schema.ok_or_else(|| wrong("output_config.format.schema", "it is missing"))?;
    options.push_schema(schema, false);
    Ok(())
}

/// Checks an effort. All of them are the same.
fn check_effort(raw: &RawValue) -> Result<(), Error> {
    const KNOWN: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
    let effort = raw::text(raw);
    if effort
        .as_deref()
        .is_ok_and(|effort| KNOWN.contains(&effort))
    {
        return Ok(());
    }
    let given = match raw::kind(raw) {
        Kind::Text => format!("{:?}", shortened(&effort.unwrap_or_default())),
        other => other.name().to_owned(),
    };
    let why = format!("it is {given}; allowed is one of {}", KNOWN.join(", "));
    Err(wrong("output_config.effort", &why))
}
