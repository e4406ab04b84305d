//! Reads arguments that are not a JSON object, and writes them as one.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::delimiters::{Delimiters, Style, release};
use super::symbols::{Symbol, text_of};
use super::values::{Progress, ValueReader};
use crate::guide::syntax::{ArgumentTypes, Types};

/// The types of the arguments of each tool.
pub(super) type ToolTypes = HashMap<String, ArgumentTypes>;

/// The syntax of arguments that are not a JSON object.
#[derive(Clone, Debug)]
pub(super) struct OwnSyntax {
    pub(super) delimiters: Arc<Delimiters>,
    pub(super) types: Arc<ToolTypes>,
}

impl OwnSyntax {
    /// Returns a reader of the arguments of a call of a tool.
    pub(super) fn reader(&self, tool: &str) -> ArgumentsReader {
        let types = self.types.get(tool).cloned();
        ArgumentsReader::new(self.delimiters.clone(), types.unwrap_or_default())
    }
}

#[derive(Clone, Debug)]
enum Place {
    /// Before an argument or the end, after these symbols.
    Between(Vec<Symbol>),
    Key(Vec<Symbol>),
    /// Within a text without quotes. The symbols may begin the text after it.
    Text(Vec<Symbol>),
    /// Within a value without quotes of several types.
    Raw(Vec<Symbol>, Types),
    Value(ValueReader),
    /// Within the text after a value, after this number of its symbols.
    Close(usize),
}

/// The state of reading the arguments of one call.
#[derive(Clone, Debug)]
pub(super) struct ArgumentsReader {
    delimiters: Arc<Delimiters>,
    types: ArgumentTypes,
    place: Place,
    /// Whether no argument was read yet.
    first: bool,
}

impl ArgumentsReader {
    fn new(delimiters: Arc<Delimiters>, types: ArgumentTypes) -> Self {
        Self {
            delimiters,
            types,
            place: Place::Between(Vec::new()),
            first: true,
        }
    }

    /// Adds the next symbol of the arguments, appends the JSON that it completes, and returns whether they have ended.
    pub(super) fn take(&mut self, symbol: Symbol, json: &mut String) -> bool {
        let delimiters = self.delimiters.clone();
        match &mut self.place {
            Place::Between(seen) => {
                seen.push(symbol);
                let next = if self.first {
                    &delimiters.open
                } else {
                    &delimiters.next
                };
                if *seen == delimiters.end {
                    *json += if self.first { "{}" } else { "}" };
                    return true;
                }
                if next.is_empty() && !delimiters.end.starts_with(seen) {
                    // A name begins without a text before it.
                    let seen = std::mem::take(seen);
                    self.place = Place::Key(Vec::new());
                    return seen.into_iter().any(|symbol| self.take(symbol, json));
                }
                if seen == next {
                    self.place = Place::Key(Vec::new());
                }
            }
            Place::Key(name) => {
                name.push(symbol);
                if name.ends_with(&delimiters.middle) {
                    name.truncate(name.len() - delimiters.middle.len());
                    let name = text_of(name);
                    self.begin_value(&name, json);
                }
            }
            Place::Text(held) => {
                held.push(symbol);
                if *held == delimiters.close {
                    json.push('"');
                    self.end_value();
                } else {
                    release(held, &delimiters.close, json);
                }
            }
            Place::Raw(seen, types) => {
                seen.push(symbol);
                if seen.ends_with(&delimiters.close) {
                    seen.truncate(seen.len() - delimiters.close.len());
                    *json += &delimiters.value(&text_of(seen), *types);
                    self.end_value();
                }
            }
            Place::Value(reader) => match reader.take(symbol, json) {
                Progress::More => {}
                Progress::Ended => self.after_value(),
                Progress::EndedBefore => {
                    self.after_value();
                    return self.take(symbol, json);
                }
            },
            Place::Close(come) => {
                *come += 1;
                if *come == delimiters.close.len() {
                    self.end_value();
                }
            }
        }
        false
    }

    fn begin_value(&mut self, name: &str, json: &mut String) {
        *json += if self.first { "{" } else { ", " };
        self.first = false;
        *json += &Value::from(name).to_string();
        *json += ": ";
        let types = self.types.get(name);
        self.place = match &self.delimiters.style {
            Style::Raw if types.without(Types::TEXT) == Types::default() => {
                json.push('"');
                Place::Text(Vec::new())
            }
            Style::Raw => Place::Raw(Vec::new(), types),
            _ => Place::Value(ValueReader::new(
                self.delimiters.clone(),
                self.delimiters.after_value(),
            )),
        };
    }

    fn after_value(&mut self) {
        if self.delimiters.close.is_empty() {
            self.end_value();
        } else {
            self.place = Place::Close(0);
        }
    }

    fn end_value(&mut self) {
        self.place = Place::Between(Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::language::Part;
    use crate::tools::Format;
    use crate::tools::symbols::symbols;

    const SCHEMA: &str = r#"{"properties": {
        "text": {"type": "string"}, "number": {"type": "number"}, "on": {"type": "boolean"},
        "either": {"type": ["string", "number", "null"]}, "list": {"type": "array"}
    }}"#;

    /// Reads arguments of a format whose text `end` follows them.
    fn read(format: &str, end: &str, text: &str) -> String {
        let format = Format::parse("one", format).expect("it is a format");
        let syntax = format.syntax.as_deref().expect("it has one").clone();
        let split = |text: &str| symbols(vec![Part::Text(text.into())]);
        let delimiters = Delimiters::new(syntax, &split(end));
        let schema = serde_json::from_str(SCHEMA).expect("JSON");
        let mut reader = ArgumentsReader::new(Arc::new(delimiters), ArgumentTypes::of(&schema));
        let mut json = String::new();
        let all = split(&format!("{text}{end}"));
        let ended = all.into_iter().position(|one| reader.take(one, &mut json));
        assert_eq!(
            ended,
            Some(format!("{text}{end}").chars().count() - 1),
            "{text}"
        );
        json
    }

    #[test]
    fn arguments_of_each_syntax_become_json() {
        let tagged = include_str!("../../config/tools/qwen3-xml.toml");
        let python = include_str!("../../config/tools/lfm2.toml");
        let marked = include_str!("../../config/tools/gemma4.toml");
        let tag = |name: &str, value: &str| format!("<parameter={name}>\n{value}\n</parameter>\n");
        let all = [
            ("text", "a\n<b>\"\\ "),
            ("number", "-1.5e3"),
            ("on", "True"),
            ("either", "None"),
        ];
        let all = all.map(|(name, value)| tag(name, value)).concat();
        for (format, end, text, expected) in [
            (tagged, "</function>\n</tool_call>", String::new(), json!({})),
            (tagged, "</function>\n</tool_call>", all, json!({"text": "a\n<b>\"\\ ", "number": -1.5e3, "on": true, "either": null})),
            (
                tagged,
                "</function>\n</tool_call>",
                tag("either", "x1") + &tag("list", r#"[true, {"a": "]\n"}]"#),
                json!({"either": "x1", "list": [true, {"a": "]\n"}]}),
            ),
            (python, ")", String::new(), json!({})),
            (
                python,
                ")",
                r#"text='it\'s \\ "', either="it's\n", on=False, number=2, list=[None, {"a": "True)"}]"#.into(),
                json!({"text": "it's \\ \"", "either": "it's\n", "on": false, "number": 2, "list": [null, {"a": "True)"}]}),
            ),
            (marked, "}<tool_call|>", String::new(), json!({})),
            (
                marked,
                "}<tool_call|>",
                r#"either:<|"|>a,b:"c"<|"|>,list:[{a.b:<|"|>}<|"|>,<|"|>c d<|"|>:[]},true],number:7"#.into(),
                json!({"either": "a,b:\"c\"", "list": [{"a.b": "}", "c d": []}, true], "number": 7}),
            ),
        ] {
            let json = read(format, end, &text);
            let json: Value = serde_json::from_str(&json).expect(&json);
            assert_eq!(json, expected, "{text}");
        }
    }
}
