//! The rules of arguments, objects and arrays.

use serde_json::{Map, Value, json};

use super::form::Text;
use super::rules::{Arguments, Rules, literal};
use super::spelling::is_plain;
use super::texts;

/// A member of an object: its expression, and whether it is required.
struct Member {
    lark: String,
    required: bool,
}

impl Rules<'_> {
    /// Returns the expression of all arguments.
    pub(super) fn arguments(&mut self, schema: &Map<String, Value>) -> Arguments {
        let mut missing = None;
        let other = other(schema);
        let mut members = Vec::new();
        for (name, schema, required) in self.declared(schema) {
            if !self.syntax.can_name(&name) {
                self.pointer.clear();
                self.give_up_name(&name);
                continue;
            }
            let Some(value) = self.argument(&name, &schema) else {
                if required {
                    missing = Some(name);
                }
                continue;
            };
            let open = literal(&self.syntax.open);
            let middle = literal(&self.syntax.middle);
            let lark = if other == Value::Bool(false) {
                let all = self.syntax.opening(&name);
                format!("{} {value}", literal(&all))
            } else {
                // An undeclared name may begin as this one does.
                format!("{open} {} {middle} {value}", json!(name))
            };
            members.push(Member { lark, required });
        }
        let rest = self.other_argument(&other).map(|value| {
            let open = literal(&self.syntax.open);
            let name = texts::name(&names(schema), false);
            let middle = literal(&self.syntax.middle);
            let name = self.terminal(&name);
            format!("{open} {name} {middle} {value}")
        });
        self.pointer.clear();
        self.count_properties(schema);
        let separator = literal(&self.syntax.separator);
        let lark = self.sequence(&members, rest, &separator);
        Arguments { lark, missing }
    }

    /// Returns the expression of an object; `None` if a required member has no value.
    pub(super) fn object(&mut self, schema: &Map<String, Value>) -> Option<String> {
        let other = other(schema);
        let colon = json!(self.syntax.nested.colon).to_string();
        let mut members = Vec::new();
        for (name, schema, required) in self.declared(schema) {
            if !self.syntax.can_write(&name.as_str().into()) {
                self.give_up_name(&name);
                continue;
            }
            let Some(value) = self.nested(&schema) else {
                if required {
                    return None;
                }
                continue;
            };
            let name = literal(&self.syntax.name(&name));
            let lark = format!("{name} {colon} {value}");
            members.push(Member { lark, required });
        }
        let rest = self.nested(&other).map(|value| {
            let taken: Vec<_> = names(schema)
                .into_iter()
                .filter(|name| is_plain(name))
                .collect();
            let quoted = !self.syntax.nested.bare;
            let name = match &self.syntax.text {
                Text::Marked { begin, end, .. } if quoted => {
                    let name = self.terminal(&texts::name(&taken, false));
                    format!("{} {name} {}", literal(begin), literal(end))
                }
                _ => self.terminal(&texts::name(&taken, quoted)),
            };
            format!("{name} {colon} {value}")
        });
        self.count_properties(schema);
        let separator = json!(self.syntax.nested.separator).to_string();
        let inner = self.sequence(&members, rest, &separator);
        Some(format!("\"{{\" {inner} \"}}\""))
    }

    /// Returns the expression of an array; `None` if a required item has no value.
    pub(super) fn array(&mut self, schema: &Map<String, Value>) -> Option<String> {
        let bound = |keyword: &str| {
            let bound = schema.get(keyword).and_then(Value::as_u64);
            bound.and_then(|bound| usize::try_from(bound).ok())
        };
        let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems"));
        let separator = json!(self.syntax.nested.separator).to_string();
        // Older drafts have the first items in `items`.
        let (first, items) = match schema.get("items") {
            Some(Value::Array(first)) => (Some(first), schema.get("additionalItems")),
            items => (schema.get("prefixItems").and_then(Value::as_array), items),
        };
        let first = first.cloned().unwrap_or_default();
        let items = items.cloned().unwrap_or(Value::Bool(true));
        let further = self.nested(&items);
        let before = first.len();
        let left = |count: usize| count.saturating_sub(before);
        let mut rest = match further {
            None if left(least) > 0 => return None,
            None => String::new(),
            Some(item) => repeated(&item, &separator, before > 0, left(least), most.map(left)),
        };
        for (at, item) in first.iter().enumerate().rev() {
            if most.is_some_and(|most| at >= most) {
                rest = String::new();
                continue;
            }
            let comma = if at > 0 { separator.as_str() } else { "" };
            // Each item has a rule of its own, because a long expression would nest as deep as the items are many.
            rest = match self.nested(item) {
                Some(item) if at < least => self.rule(&format!("{comma} {item} {rest}")),
                Some(item) => self.rule(&format!("[{comma} {item} {rest}]")),
                None if at < least => return None,
                None => String::new(),
            };
        }
        Some(format!("\"[\" {rest} \"]\""))
    }

    /// Returns the expression of members in their order, and of any number of `rest` after them.
    fn sequence(&mut self, members: &[Member], rest: Option<String>, separator: &str) -> String {
        let (mut alone, mut after) = match rest {
            None => ("\"\"".to_owned(), "\"\"".to_owned()),
            Some(rest) => {
                let one = self.rule(&rest);
                let more = self.rule(&format!("({separator} {one})*"));
                (format!("[{one} {more}]"), more)
            }
        };
        for Member { lark, required } in members.iter().rev() {
            let one = self.rule(lark);
            (alone, after) = if *required {
                let first = format!("{one} {after}");
                let next = format!("{separator} {one} {after}");
                (self.rule(&first), self.rule(&next))
            } else {
                let first = format!("{one} {after} | {alone}");
                let next = format!("[{separator} {one}] {after}");
                (self.rule(&first), self.rule(&next))
            };
        }
        alone
    }

    /// Returns the declared properties with their schemas, and whether they are required.
    fn declared(&self, schema: &Map<String, Value>) -> Vec<(String, Value, bool)> {
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<_> = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let declared = schema.get("properties").and_then(Value::as_object);
        let mut all: Vec<_> = declared
            .into_iter()
            .flatten()
            .map(|(name, schema)| {
                (
                    name.clone(),
                    schema.clone(),
                    required.contains(&name.as_str()),
                )
            })
            .collect();
        for name in required {
            if !all.iter().any(|(known, ..)| known == name) {
                all.push((name.to_owned(), other(schema), true));
            }
        }
        if self.syntax.sorted {
            all.sort_by_key(|(name, ..)| name.to_lowercase());
        }
        all
    }

    /// Lists bounds on the number of properties that their declaration does not imply.
    fn count_properties(&mut self, schema: &Map<String, Value>) {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        let count = |keyword: &str| {
            let names = schema.get(keyword);
            let count = names.and_then(Value::as_array).map(Vec::len);
            count
                .or_else(|| names?.as_object().map(Map::len))
                .unwrap_or(0) as u64
        };
        let is_open = other(schema) != Value::Bool(false);
        let least = bound("minProperties").is_some_and(|least| least > count("required"));
        let most = bound("maxProperties").is_some_and(|most| is_open || most < count("properties"));
        let by_pattern = schema.contains_key("patternProperties");
        let lost = [
            ("minProperties", least),
            ("maxProperties", most),
            ("patternProperties", by_pattern),
        ];
        let lost = lost.into_iter().filter(|(_, is_lost)| *is_lost);
        self.give_up(lost.map(|(keyword, _)| keyword));
    }
}

/// Returns the schema of undeclared properties.
fn other(schema: &Map<String, Value>) -> Value {
    let other = schema.get("additionalProperties").cloned();
    match other {
        Some(Value::Bool(false)) if schema.contains_key("patternProperties") => Value::Bool(true),
        other => other.unwrap_or(Value::Bool(true)),
    }
}

fn names(schema: &Map<String, Value>) -> Vec<String> {
    let declared = schema.get("properties").and_then(Value::as_object);
    declared.into_iter().flat_map(Map::keys).cloned().collect()
}

/// Returns the expression of `least` to `most` items; `after` says whether other items precede them.
fn repeated(item: &str, separator: &str, after: bool, least: usize, most: Option<usize>) -> String {
    let times = |least: usize, most: Option<usize>| match (least, most) {
        (_, Some(0)) => None,
        (least, Some(most)) => Some(format!("({separator} {item}){{{least},{most}}}")),
        (least, None) => Some(format!("({separator} {item}){{{least},}}")),
    };
    if after {
        return times(least, most).unwrap_or_default();
    }
    if most == Some(0) {
        return String::new();
    }
    let more = times(least.saturating_sub(1), most.map(|most| most - 1));
    let all = format!("{item} {}", more.unwrap_or_default());
    if least == 0 { format!("[{all}]") } else { all }
}
