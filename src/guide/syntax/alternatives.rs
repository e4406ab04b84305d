//! Splits a schema into alternatives of one type each.

use serde_json::{Map, Value, json};

use super::merge::{Merged, names};
use super::types::{Types, keyword_types, referred};

/// The most alternatives of a schema, the depth to which references are followed, and the most schemas that are visited
/// for one.
const MOST: usize = 64;
const DEEPEST: usize = 16;
const VISITED: usize = 5_000;

/// What a value may be.
#[derive(Clone, Debug)]
pub(super) enum Alternative {
    /// One of these values.
    Literals(Vec<Value>),
    Text(Map<String, Value>),
    Number {
        schema: Map<String, Value>,
        integer: bool,
    },
    Boolean,
    Null,
    Array(Map<String, Value>),
    Object(Map<String, Value>),
}

/// The alternatives of a schema.
#[derive(Debug, Default)]
pub(super) struct Alternatives {
    pub(super) each: Vec<Alternative>,
    /// Keywords that are not enforced.
    pub(super) lost: Vec<String>,
}

impl Alternative {
    pub(super) fn types(&self) -> Types {
        match self {
            Self::Literals(values) => {
                let each = values.iter().map(Types::of);
                each.fold(Types::default(), Types::with)
            }
            Self::Text(_) => Types::TEXT,
            Self::Number { .. } => Types::NUMBER,
            Self::Boolean => Types::BOOLEAN,
            Self::Null => Types::NULL,
            Self::Array(_) | Self::Object(_) => Types::CONTAINER,
        }
    }
}

impl Alternatives {
    /// Splits a schema whose references are within `root`.
    pub(super) fn of(root: &Value, schema: &Value) -> Self {
        let mut all = Self::default();
        let mut search = Search {
            root,
            left: VISITED,
        };
        for Merged { schema, lost } in search.merged(schema, 0) {
            for keyword in lost {
                if !all.lost.contains(&keyword) {
                    all.lost.push(keyword);
                }
            }
            all.split(&schema);
        }
        all
    }

    /// Adds the alternatives of a schema without references and combinations.
    fn split(&mut self, schema: &Map<String, Value>) {
        let own = schema.get("type").map(names);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let fits = |value: &&Value| own.as_ref().is_none_or(|own| is_of(value, own));
            let values: Vec<_> = values.iter().filter(fits).cloned().collect();
            if !values.is_empty() {
                self.each.push(Alternative::Literals(values));
            }
            return;
        }
        for name in own.clone().unwrap_or_else(|| implied(schema)) {
            let schema = schema.clone();
            let is_number = || own.as_ref().is_some_and(|own| own.contains(&"number"));
            self.each.push(match name {
                "string" => Alternative::Text(schema),
                "integer" if is_number() => continue,
                "number" | "integer" => Alternative::Number {
                    schema,
                    integer: name == "integer",
                },
                "boolean" => Alternative::Boolean,
                "null" => Alternative::Null,
                "array" => Alternative::Array(schema),
                "object" => Alternative::Object(schema),
                _ => continue,
            });
        }
    }
}

/// Returns the types that are meant by a schema that names none.
fn implied(schema: &Map<String, Value>) -> Vec<&'static str> {
    let Some(types) = keyword_types(schema) else {
        return vec!["string", "number", "boolean", "null", "array", "object"];
    };
    if types.has(Types::TEXT) {
        return vec!["string"];
    }
    if types.has(Types::NUMBER) {
        return vec!["number"];
    }
    let is_array = ["items", "prefixItems"]
        .iter()
        .any(|one| schema.contains_key(*one));
    vec![if is_array { "array" } else { "object" }]
}

/// Whether a value is of one of the named types.
fn is_of(value: &Value, names: &[&str]) -> bool {
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    names.iter().any(|name| match *name {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => is_whole,
        name => Types::of(value).has(Types::named(name)),
    })
}

/// A visit of the schemas within `root` that describe one value. The number of visits is limited, because each reference
/// may lead to many.
struct Search<'a> {
    root: &'a Value,
    left: usize,
}

impl Search<'_> {
    /// Returns schemas without references and combinations, one of which accepts what `schema` accepts.
    fn merged(&mut self, schema: &Value, depth: usize) -> Vec<Merged> {
        let members = match schema {
            Value::Bool(false) => return Vec::new(),
            Value::Object(members) => members,
            _ => return vec![Merged::default()],
        };
        let lost = |keyword: &str| Merged {
            lost: vec![keyword.into()],
            ..Merged::default()
        };
        if depth >= DEEPEST || self.left == 0 {
            return vec![lost("$ref")];
        }
        self.left -= 1;
        let mut all = vec![Merged::default().with(&own(members))];
        if members.contains_key("$ref") {
            let found = referred(self.root, members);
            let more = found.map(|schema| self.merged(schema, depth + 1));
            all = product(all, &more.unwrap_or_else(|| vec![lost("$ref")]), "$ref");
        }
        let schemas = |keyword: &str| members.get(keyword).and_then(Value::as_array);
        for schema in schemas("allOf").into_iter().flatten() {
            all = product(all, &self.merged(schema, depth + 1), "allOf");
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(each) = schemas(keyword) {
                let more = each
                    .iter()
                    .flat_map(|schema| self.merged(schema, depth + 1));
                // One more than may be used shows that there are too many.
                let more: Vec<_> = more.take(MOST + 1).collect();
                all = product(all, &more, keyword);
            }
        }
        all
    }
}

/// Returns a schema's own keywords, in one form.
fn own(members: &Map<String, Value>) -> Map<String, Value> {
    let mut own = members.clone();
    for keyword in [
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
    ] {
        own.shift_remove(keyword);
    }
    if let Some(value) = own.shift_remove("const") {
        own.insert("enum".into(), json!([value]));
    }
    if let Some(pattern) = own.get_mut("pattern").filter(|pattern| pattern.is_string()) {
        *pattern = json!([pattern]);
    }
    own
}

fn product(all: Vec<Merged>, more: &[Merged], keyword: &str) -> Vec<Merged> {
    if all.len() * more.len() > MOST {
        let lost = |mut one: Merged| {
            one.lost.push(keyword.into());
            one
        };
        return all.into_iter().map(lost).collect();
    }
    let pairs = all.iter().flat_map(|one| {
        more.iter().map(move |other| {
            let mut merged = one.clone().with(&other.schema);
            merged.lost.extend(other.lost.iter().cloned());
            merged
        })
    });
    pairs.collect()
}
