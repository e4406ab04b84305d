//! `tojson` as transformers defines it: Python's `json.dumps`.

use std::fmt::Write as _;

use minijinja::{Error, State, Value};

use super::compare::order;
use super::kind::{Kind, bind, count, int_of, items, needed, pairs, text_of, wrong};
use super::text;

/// The options of `json.dumps`.
#[derive(Debug)]
struct Writer {
    ascii: bool,
    /// The indentation of one level.
    indent: Option<String>,
    between_items: String,
    after_key: String,
    sort: bool,
    written: String,
}

/// Unlike Jinja's own, it escapes no characters for HTML.
pub(super) fn tojson(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let parameters = ["x", "ensure_ascii", "indent", "separators", "sort_keys"];
    let [value, ascii, indent, separators, sort] = bind("tojson", values, parameters)?;
    let indent = indent.filter(|indent| !indent.is_none());
    let indent = indent.as_ref().map(indention).transpose()?;
    let separators = separators.filter(|separators| !separators.is_none());
    let (between_items, after_key) = match separators {
        Some(separators) => match items(&separators)?.as_slice() {
            [between, after] => (text_of(between)?.to_owned(), text_of(after)?.to_owned()),
            _ => return Err(wrong("separators are two texts")),
        },
        None => (
            if indent.is_some() { "," } else { ", " }.into(),
            ": ".into(),
        ),
    };
    let mut writer = Writer {
        ascii: ascii.is_some_and(|ascii| ascii.is_true()),
        indent,
        between_items,
        after_key,
        sort: sort.is_some_and(|sort| sort.is_true()),
        written: String::new(),
    };
    writer.value(&needed(value, "x")?, 0)?;
    Ok(Value::from(writer.written))
}

fn indention(indent: &Value) -> Result<String, Error> {
    match Kind::of(indent) {
        Kind::Text(text) => Ok(text.to_owned()),
        _ => Ok(" ".repeat(count(int_of(indent)?, 1 << 10)?)),
    }
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match Kind::of(value) {
            Kind::None => self.written.push_str("null"),
            Kind::Bool(true) => self.written.push_str("true"),
            Kind::Bool(false) => self.written.push_str("false"),
            Kind::Int(int) => self.written.push_str(&int.to_string()),
            Kind::Float(number) => self.written.push_str(&float(number)),
            Kind::Text(text) => self.text(text),
            Kind::List | Kind::Tuple => self.list(&items(value)?, depth)?,
            Kind::Dict => self.dict(pairs(value), depth)?,
            other => {
                let name = other.name();
                return Err(wrong(format!(
                    "Object of type {name} is not JSON serializable"
                )));
            }
        }
        if self.written.len() > super::limits::LARGEST {
            return Err(wrong("it would need too much memory"));
        }
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.written.push('\n');
            self.written.push_str(&indent.repeat(depth));
        }
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), Error> {
        if items.is_empty() {
            self.written.push_str("[]");
            return Ok(());
        }
        self.written.push('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.written.push_str(&self.between_items);
            }
            self.line(depth + 1);
            self.value(item, depth + 1)?;
        }
        self.line(depth);
        self.written.push(']');
        Ok(())
    }

    fn dict(&mut self, mut pairs: Vec<(Value, Value)>, depth: usize) -> Result<(), Error> {
        if pairs.is_empty() {
            self.written.push_str("{}");
            return Ok(());
        }
        if self.sort {
            for pair in pairs.windows(2) {
                if let [(one, _), (other, _)] = pair {
                    order(other, one)?;
                }
            }
            pairs.sort_by(|(one, _), (other, _)| {
                let order = order(one, other).ok().flatten();
                order.unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        self.written.push('{');
        for (at, (key, value)) in pairs.iter().enumerate() {
            if at > 0 {
                self.written.push_str(&self.between_items);
            }
            self.line(depth + 1);
            let key = match Kind::of(key) {
                Kind::Text(text) => text.to_owned(),
                Kind::None => "null".into(),
                Kind::Bool(true) => "true".into(),
                Kind::Bool(false) => "false".into(),
                Kind::Int(int) => int.to_string(),
                Kind::Float(number) => float(number),
                other => {
                    let name = other.name();
                    return Err(wrong(format!(
                        "keys must be str, int, float, bool or None, not {name}"
                    )));
                }
            };
            self.text(&key);
            self.written.push_str(&self.after_key);
            self.value(value, depth + 1)?;
        }
        self.line(depth);
        self.written.push('}');
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.written.push('"');
        for c in text.chars() {
            match c {
                '"' => self.written.push_str("\\\""),
                '\\' => self.written.push_str("\\\\"),
                '\n' => self.written.push_str("\\n"),
                '\r' => self.written.push_str("\\r"),
                '\t' => self.written.push_str("\\t"),
                '\x08' => self.written.push_str("\\b"),
                '\x0c' => self.written.push_str("\\f"),
                '\0'..='\x1f' => self.escape(u32::from(c)),
                ' '..='~' => self.written.push(c),
                // The guard's mark is not part of the text, and is removed afterwards.
                c if self.ascii && !text::is_mark(c) => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        self.escape(u32::from(*unit));
                    }
                }
                c => self.written.push(c),
            }
        }
        self.written.push('"');
    }

    fn escape(&mut self, unit: u32) {
        let _ = write!(self.written, "\\u{unit:04x}");
    }
}

fn float(number: f64) -> String {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .into()
    } else {
        text::float(number)
    }
}
