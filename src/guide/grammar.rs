//! What an answer must fit, as callers say it.

use llguidance::api::TopLevelGrammar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Groups in groups.
const DEEPEST: usize = 128;
/// Members of one object of a schema: the time that they take grows with their square.
const WIDEST: usize = 2048;

/// What an answer must fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Grammar {
    /// A JSON Schema: the answer is JSON that it accepts.
    JsonSchema(String),
    /// Any JSON object.
    Json,
    /// A regular expression, of the whole answer.
    Regex(String),
    /// Lark's syntax, with llguidance's extensions; `start` is the answer.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text and calls of tools, in Lark's syntax as well; so many bytes were offered.
    Tools {
        lark: String,
        bytes: usize,
        /// What calls begin with, where that is text and no token.
        trigger: Option<Box<str>>,
    },
}

/// Why nothing can be made of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    #[error("option {option:?}: {why}")]
    Wrong { option: &'static str, why: String },
    #[error("option {option:?} has {bytes} bytes; {limit} are allowed (limits.grammar_bytes)")]
    TooLong {
        option: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error("option {option:?} nests {depth} deep; {DEEPEST} are allowed")]
    TooDeep { option: &'static str, depth: usize },
    #[error("option {option:?} has an object of {members} members; {WIDEST} are allowed")]
    TooWide {
        option: &'static str,
        members: usize,
    },
    #[error(
        "this model's vocabulary has no token that ends an answer, so that nothing can bound one"
    )]
    NoVocabulary,
    #[error(
        "option {option:?} needs {mib} MiB of memory once it is compiled; {most} are allowed; make it simpler",
        most = super::COMPILED >> 20
    )]
    TooLarge { option: &'static str, mib: usize },
    /// A bound of its process has passed.
    #[error("option {option:?} costs too much: compiling it {why}; make it simpler")]
    Stopped { option: &'static str, why: String },
    #[error("the process that compiles grammars cannot be started ({why}); try again later")]
    NoProcess { why: String },
    /// Its request was cancelled meanwhile.
    #[error("the request was cancelled while its grammar was compiled")]
    Unwanted,
}

impl Grammar {
    /// The option that callers give it by.
    #[must_use]
    pub const fn option(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) => "json_schema",
            Self::Json => "json",
            Self::Regex(_) => "regex",
            Self::Lark(_) => "grammar",
            Self::Choice(_) => "choice",
            Self::Tools { .. } => "tools",
        }
    }

    /// Whether an answer may be any text, also none.
    pub(super) fn allows_silence(&self) -> bool {
        matches!(self, Self::Tools { lark, .. } if lark.starts_with("start: TEXT"))
    }

    /// Bytes of what the caller said.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Json => 0,
            Self::JsonSchema(text) | Self::Regex(text) | Self::Lark(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(String::len).sum(),
            Self::Tools { bytes, .. } => *bytes,
        }
    }

    pub(super) fn wrong(&self, why: &impl ToString) -> GrammarError {
        let why = why.to_string();
        // Where llguidance leaves out what it was asked not to say.
        let why = why.split("<non-verbose").next().unwrap_or_default();
        GrammarError::Wrong {
            option: self.option(),
            why: why.trim_end().to_owned(),
        }
    }

    /// Refuses a schema with an object that is too large, or one that could not be held to though llguidance takes it.
    fn admit(&self, schema: &Value) -> Result<(), GrammarError> {
        let (option, members) = (self.option(), widest(schema));
        if members > WIDEST {
            return Err(GrammarError::TooWide { option, members });
        }
        match unheld(schema, "") {
            Some(why) => Err(self.wrong(&why)),
            None => Ok(()),
        }
    }

    /// The same in llguidance's words.
    pub(super) fn top_level(&self) -> Result<TopLevelGrammar, GrammarError> {
        if let Self::Regex(text) | Self::Lark(text) = self {
            let depth = depth(text);
            if depth > DEEPEST {
                let option = self.option();
                return Err(GrammarError::TooDeep { option, depth });
            }
        }
        Ok(match self {
            Self::JsonSchema(text) => {
                let not_json =
                    |error: serde_json::Error| self.wrong(&format!("it is not JSON: {error}"));
                let schema = serde_json::from_str(text).map_err(not_json)?;
                self.admit(&schema)?;
                TopLevelGrammar::from_json_schema(spaced(schema))
            }
            Self::Json => TopLevelGrammar::from_json_schema(spaced(json!({"type": "object"}))),
            Self::Regex(text) => TopLevelGrammar::from_regex(text),
            Self::Lark(text) | Self::Tools { lark: text, .. } => {
                // Schemas may be in it, and each of them may contain the same word as text.
                for (at, word) in text.match_indices("%json") {
                    let rest = text.get(at + word.len()..).unwrap_or_default();
                    let schema = serde_json::Deserializer::from_str(rest).into_iter().next();
                    schema
                        .and_then(Result::ok)
                        .map_or(Ok(()), |schema| self.admit(&schema))?;
                }
                TopLevelGrammar::from_lark(text.clone())
            }
            Self::Choice(texts) => {
                // JSON's escapes are Lark's.
                let quoted: Vec<_> = texts.iter().map(|text| json!(text).to_string()).collect();
                TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
            }
        })
    }
}

/// How deep groups lie in each other, at most: those that are only text count as well. To find that out by parsing takes
/// hundreds of megabytes for a text of nothing else.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut escaped) = (0_usize, 0, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// How many members the largest object has. JSON that was read nests at most 128 deep.
fn widest(json: &Value) -> usize {
    match json {
        Value::Object(members) => {
            let within = members.values().map(widest).max();
            members.len().max(within.unwrap_or_default())
        }
        Value::Array(items) => items.iter().map(widest).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Keywords whose numbers an answer's are compared with.
const COMPARED: [&str; 7] = [
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// What an answer that fits the grammar may not hold to: at most the first of it, with a JSON pointer to it.
fn unheld(schema: &Value, pointer: &str) -> Option<String> {
    let within = |(key, schema): (String, &Value)| unheld(schema, &format!("{pointer}/{key}"));
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            return items.find_map(|(at, item)| within((at.to_string(), item)));
        }
        _ => return None,
    };
    for keyword in COMPARED {
        if let Some(number) = members.get(keyword).and_then(inexact) {
            return Some(format!(
                "{number} cannot be told from the whole numbers next to it, as numbers are doubles: {pointer}/{keyword}"
            ));
        }
    }
    // A name that is free may come twice, and counts once for whoever reads it.
    let least = members.get("minProperties").and_then(Value::as_u64);
    let required = members.get("required").and_then(Value::as_array);
    let named = required.map_or(0, Vec::len) as u64;
    let are_free = members.get("additionalProperties") != Some(&Value::Bool(false))
        || members.contains_key("patternProperties");
    if let Some(least) = least.filter(|least| are_free && *least > named + 1) {
        return Some(format!(
            "{least} members of which {named} are required could have the same names: {pointer}/minProperties"
        ));
    }
    let mut members = members.iter();
    members.find_map(|(key, schema)| within((key.replace('~', "~0").replace('/', "~1"), schema)))
}

/// A whole number of it that no double is.
fn inexact(json: &Value) -> Option<&Value> {
    match json {
        Value::Number(number) => {
            let whole = number.as_i64().map(i128::from);
            let whole = whole.or_else(|| number.as_u64().map(i128::from))?;
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let nearest = whole as f64 as i128;
            (nearest != whole).then_some(json)
        }
        Value::Array(items) => items.iter().find_map(inexact),
        Value::Object(members) => members.values().find_map(inexact),
        _ => None,
    }
}

/// JSON as models write it on one line. Free space between its parts would cost tokens, and a small model never comes to an
/// end of it; a schema that wants another says so itself.
#[must_use]
pub fn spaced(mut schema: Value) -> Value {
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Some(schema) = schema.as_object_mut()
        && !schema.contains_key("x-guidance")
    {
        let spacing = json!({
            "whitespace_flexible": false,
            "item_separator": ", ",
            "key_separator": ": ",
        });
        schema.insert("x-guidance".into(), spacing);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_may_not_hold_to_is_refused_with_its_place() {
        let refused = |schema: Value| {
            let grammar = Grammar::JsonSchema(schema.to_string());
            grammar.top_level().err().map(|error| error.to_string())
        };
        for (schema, place) in [
            (json!({"const": 9_007_199_254_740_993_u64}), "/const"),
            (
                json!({"properties": {"a/b": {"enum": [1, [9_007_199_254_740_993_u64]]}}}),
                "/properties/a~1b/enum",
            ),
            (
                json!({"anyOf": [true, {"minimum": -9_007_199_254_740_993_i64}]}),
                "/anyOf/1/minimum",
            ),
            (
                json!({"type": "object", "minProperties": 2}),
                "/minProperties",
            ),
            (
                json!({"required": ["a"], "minProperties": 3, "additionalProperties": {"type": "integer"}}),
                "/minProperties",
            ),
        ] {
            let why = refused(schema.clone());
            assert!(
                why.as_deref().is_some_and(|why| why.ends_with(place)),
                "{schema}: {why:?}"
            );
        }
        for schema in [
            json!({"const": 9_007_199_254_740_992_u64}),
            json!({"required": ["a"], "minProperties": 2}),
            json!({"properties": {"a": true, "b": true}, "minProperties": 2, "additionalProperties": false}),
        ] {
            assert_eq!(refused(schema.clone()), None, "{schema}");
        }
    }
}
