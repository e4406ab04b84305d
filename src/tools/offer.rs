//! The tools that a caller offers, and whether the model may or must call them.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// Characters of a name.
const LONGEST_NAME: usize = 64;

/// The values of `tool_choice` besides a name.
const CHOICES: [&str; 3] = ["auto", "none", "required"];

/// Keywords whose presence means that an object's declared properties are not all of its properties.
const OPEN: [&str; 9] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "if",
    "oneOf",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
];

/// Other keywords of an object's schema.
const CLOSED: [&str; 17] = [
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "const",
    "default",
    "definitions",
    "dependentRequired",
    "description",
    "enum",
    "examples",
    "maxProperties",
    "minProperties",
    "not",
    "properties",
    "required",
    "title",
];

/// The checked tools of a request. Whether their schemas can be enforced is decided when they are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// The offer as the caller gave it, completed for chat templates. Text takes a fraction of the memory of parsed
    /// JSON.
    given: String,
    pub(super) each: Vec<Tool>,
    pub(super) choice: Choice,
    /// Whether one answer may contain several calls.
    parallel: bool,
    /// The most calls of one answer with several calls.
    most: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// A JSON Schema of an object.
    pub(super) arguments: String,
}

/// Whether the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The model calls or answers.
    #[default]
    Auto,
    /// The model answers, and knows the tools.
    None,
    /// The model calls.
    Required,
    /// The model calls this tool, once.
    Named(String),
}

/// An error in an offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolsError {
    #[error("option \"tools\" is not JSON: {0}")]
    Json(String),
    #[error(
        "option \"tools\" must be a JSON array of at least one {{\"type\": \"function\", \"function\": {{\"name\", \"description\", \
         \"parameters\"}}}}; {0}"
    )]
    Shape(String),
    #[error(
        "option \"tools\": the name {0:?} must have 1 to {LONGEST_NAME} of the letters A to Z and a to z, digits, _ and -"
    )]
    Name(String),
    #[error(
        "option \"tools\": no tool can be named {0:?}, for option \"tool_choice\" means something else by that; give it another name"
    )]
    Reserved(String),
    #[error("option \"tools\": the name {0:?} is there twice; give each tool its own")]
    Twice(String),
    #[error(
        "option \"tools\": the \"parameters\" of {0:?} must be a JSON Schema of \"type\": \"object\", for its arguments are an object"
    )]
    Parameters(String),
    #[error(
        "option \"tools\": the \"parameters\" of {0:?} have no keyword of JSON Schema; give the arguments as \"type\": \"object\" \
         with \"properties\""
    )]
    Keywords(String),
    #[error(
        "option \"tool_choice\" is {choice:?}; allowed is \"auto\", \"none\", \"required\" or a name of the tools: {names}"
    )]
    Choice { choice: String, names: String },
}

impl Tools {
    /// Parses a JSON array in the form of OpenAI's API, and `tool_choice`.
    ///
    /// # Errors
    /// If the text is not such an array, or `choice` names none of its tools.
    pub fn read(text: &str, choice: Option<&str>, parallel: bool) -> Result<Self, ToolsError> {
        let mut given: Value =
            serde_json::from_str(text).map_err(|error| ToolsError::Json(error.to_string()))?;
        let Some(array) = given.as_array().filter(|array| !array.is_empty()) else {
            return Err(ToolsError::Shape("it is none, or empty".into()));
        };
        let each = array.iter().zip(0..).map(|(one, at)| tool(one, at));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = each.iter().find(|tool| !names.insert(&tool.name)) {
            return Err(ToolsError::Twice(twice.name.clone()));
        }
        let choice = match choice {
            None | Some("auto") => Choice::Auto,
            Some("none") => Choice::None,
            Some("required") => Choice::Required,
            Some(name) if each.iter().any(|tool| tool.name == name) => Choice::Named(name.into()),
            Some(other) => {
                let names: Vec<_> = each.iter().map(|tool| tool.name.as_str()).collect();
                return Err(ToolsError::Choice {
                    choice: shortened(other),
                    names: shortened(&names.join(", ")),
                });
            }
        };
        let mut lacked = false;
        for one in given.as_array_mut().into_iter().flatten() {
            lacked |= complete(one);
        }
        Ok(Self {
            given: if lacked {
                given.to_string()
            } else {
                text.to_owned()
            },
            each,
            choice,
            parallel,
            most: None,
        })
    }

    /// Limits the number of calls in one answer.
    #[must_use]
    pub fn at_most(mut self, calls: Option<u32>) -> Self {
        self.most = calls;
        self
    }

    /// Returns the tools as the model gets them: a JSON array.
    #[must_use]
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Returns the choice in the form that `read` takes.
    #[must_use]
    pub fn choice(&self) -> &str {
        match &self.choice {
            Choice::Auto => "auto",
            Choice::None => "none",
            Choice::Required => "required",
            Choice::Named(name) => name,
        }
    }

    /// Whether the model may call without having to.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.choice == Choice::Auto
    }

    /// Whether one answer may contain several calls.
    #[must_use]
    pub const fn parallel(&self) -> bool {
        self.parallel
    }

    /// Returns the limit of calls that `at_most` set.
    #[must_use]
    pub const fn most(&self) -> Option<u32> {
        self.most
    }

    /// Returns the most calls of one answer: a tool that is chosen by name is called once.
    pub(super) fn calls(&self) -> Option<u32> {
        match self.choice {
            Choice::Named(_) => Some(1),
            _ if self.parallel => self.most,
            _ => Some(1),
        }
    }

    /// Returns the names and the JSON Schemas of the arguments.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &str)> {
        let tools = self.each.iter();
        tools.map(|tool| (tool.name.as_str(), tool.arguments.as_str()))
    }
}

/// Adds optional members that some chat templates expect. Returns whether something was added.
fn complete(one: &mut Value) -> bool {
    let Some(function) = one.get_mut("function").and_then(Value::as_object_mut) else {
        return false;
    };
    let before = function.len();
    function.entry("description").or_insert_with(|| "".into());
    let parameters = function.entry("parameters").or_insert(Value::Null);
    let none = parameters.is_null();
    if none {
        *parameters = json!({"type": "object", "properties": {}});
    }
    none || function.len() > before
}

fn tool(one: &Value, at: usize) -> Result<Tool, ToolsError> {
    let shape = |what: &str| ToolsError::Shape(format!("number {at} has {what}"));
    if one.get("type").and_then(Value::as_str) != Some("function") {
        return Err(shape("not \"type\": \"function\""));
    }
    let function = one.get("function").and_then(Value::as_object);
    let function = function.ok_or_else(|| shape("no object \"function\""))?;
    let name = function.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| shape("no text \"name\" in its \"function\""))?;
    let letters = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-';
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(letters) {
        return Err(ToolsError::Name(shortened(name)));
    }
    if CHOICES.contains(&name) {
        return Err(ToolsError::Reserved(name.into()));
    }
    let arguments = match function.get("parameters") {
        None | Some(Value::Null) => Some(closed(Map::new())),
        Some(Value::Object(schema)) if is_unknown(schema) => {
            return Err(ToolsError::Keywords(name.into()));
        }
        Some(Value::Object(schema)) => object(schema.clone()),
        Some(_) => None,
    };
    Ok(Tool {
        name: name.into(),
        arguments: arguments
            .ok_or_else(|| ToolsError::Parameters(name.into()))?
            .to_string(),
    })
}

/// Completes the schema of an object; `None` if it describes another type.
fn object(mut schema: Map<String, Value>) -> Option<Value> {
    match schema.get("type") {
        None => {
            schema.insert("type".into(), "object".into());
        }
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
    }
    // A least number of undeclared members means that any members are allowed.
    let declares = schema.contains_key("properties") || !schema.contains_key("minProperties");
    if !declares || OPEN.iter().any(|keyword| schema.contains_key(*keyword)) {
        return Some(schema.into());
    }
    Some(closed(schema))
}

/// Whether a schema has members, none of which is a keyword of an object's schema.
fn is_unknown(schema: &Map<String, Value>) -> bool {
    let is_known = |name: &String| {
        name == "type" || OPEN.contains(&name.as_str()) || CLOSED.contains(&name.as_str())
    };
    !schema.is_empty() && !schema.keys().any(is_known)
}

/// Forbids undeclared arguments, because small models would invent some.
fn closed(mut schema: Map<String, Value>) -> Value {
    schema.entry("type").or_insert_with(|| "object".into());
    let required = schema.get("required").and_then(Value::as_array).cloned();
    let declared = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(declared) = declared.as_object_mut() {
        for name in required.iter().flatten().filter_map(Value::as_str) {
            declared.entry(name).or_insert_with(|| json!({}));
        }
    }
    schema.insert("additionalProperties".into(), false.into());
    schema.into()
}

/// Shortens a text that an error quotes.
fn shortened(text: &str) -> String {
    const CHARS: usize = 200;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
