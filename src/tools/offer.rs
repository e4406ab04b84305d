//! What a caller offers: tools, and which of them the model may or must call.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// Characters of a name.
const LONGEST_NAME: usize = 64;

/// What `tool_choice` may say besides a name.
const CHOICES: [&str; 3] = ["auto", "none", "required"];

/// Keywords beside which a schema's own properties are not all that an object may have.
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

/// The tools of a request. It has been checked; whether the schemas can be held to is for whoever compiles them to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// As they were given, but for what `complete` adds, for the chat template. As text they take a fraction of the memory while they wait.
    given: String,
    pub(super) each: Vec<Tool>,
    pub(super) choice: Choice,
    /// Whether one answer may call several times.
    parallel: bool,
    /// The most calls of one answer that may call several times.
    most: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// A JSON Schema of an object.
    pub(super) arguments: String,
}

/// What the model is to do with the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// It calls or answers.
    #[default]
    Auto,
    /// It answers, and knows of them.
    None,
    /// It calls.
    Required,
    /// It calls this one, once.
    Named(String),
}

/// What is wrong with an offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolsError {
    #[error("option \"tools\" is no JSON: {0}")]
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
    /// Reads a JSON array as OpenAI's API has it, and `tool_choice`.
    ///
    /// # Errors
    /// If it is no such array, or nothing in it has the name that is chosen.
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

    /// Limits the calls of one answer.
    #[must_use]
    pub fn at_most(mut self, calls: Option<u32>) -> Self {
        self.most = calls;
        self
    }

    /// As they are told to the model: a JSON array.
    #[must_use]
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Which of them the model may or must call, as `read` takes it.
    #[must_use]
    pub fn choice(&self) -> &str {
        match &self.choice {
            Choice::Auto => "auto",
            Choice::None => "none",
            Choice::Required => "required",
            Choice::Named(name) => name,
        }
    }

    /// Whether the model may call, and need not.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.choice == Choice::Auto
    }

    /// Whether one answer may call several times.
    #[must_use]
    pub const fn parallel(&self) -> bool {
        self.parallel
    }

    /// The most calls of one answer, as `at_most` takes it.
    #[must_use]
    pub const fn most(&self) -> Option<u32> {
        self.most
    }

    /// The most calls that one answer may have: a tool that is chosen by its name is called once.
    pub(super) fn calls(&self) -> Option<u32> {
        match self.choice {
            Choice::Named(_) => Some(1),
            _ if self.parallel => self.most,
            _ => Some(1),
        }
    }

    /// The names, and the JSON Schemas of the arguments.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &str)> {
        let tools = self.each.iter();
        tools.map(|tool| (tool.name.as_str(), tool.arguments.as_str()))
    }
}

/// What may be left out is there for chat templates, some of which count on it. Returns whether something was not.
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

/// The schema of an object; `None` if it is one of something else.
fn object(mut schema: Map<String, Value>) -> Option<Value> {
    match schema.get("type") {
        None => {
            schema.insert("type".into(), "object".into());
        }
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
    }
    // A least number of members, of which none is declared, is one of any members.
    let declares = schema.contains_key("properties") || !schema.contains_key("minProperties");
    if !declares || OPEN.iter().any(|keyword| schema.contains_key(*keyword)) {
        return Some(schema.into());
    }
    Some(closed(schema))
}

/// Whether a schema has members, and none of them is a keyword of an object's.
fn is_unknown(schema: &Map<String, Value>) -> bool {
    let is_known = |name: &String| {
        name == "type" || OPEN.contains(&name.as_str()) || CLOSED.contains(&name.as_str())
    };
    !schema.is_empty() && !schema.keys().any(is_known)
}

/// Arguments that are neither declared nor required are not allowed: small models would invent some.
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

/// Errors quote what they refuse, but never megabytes of it.
fn shortened(text: &str) -> String {
    const CHARS: usize = 200;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
