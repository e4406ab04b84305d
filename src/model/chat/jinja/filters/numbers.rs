//! Filters of numbers.

use minijinja::{Error, State, Value};

use super::arguments::path;
use crate::model::chat::jinja::format::{rounded, whole};
use crate::model::chat::jinja::kind::{Kind, bind, int as int_value, int_of, items, needed, wrong};
use crate::model::chat::jinja::{operators, strings};

pub(super) fn abs(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("abs", values, ["value"])?;
    let value = needed(value, "value")?;
    let kind = Kind::of(&value);
    match kind {
        Kind::Float(value) => Ok(Value::from(value.abs())),
        _ => match kind.int().and_then(i128::checked_abs) {
            Some(value) => Ok(int_value(value)),
            None => Err(wrong(format!(
                "bad operand type for abs(): '{}'",
                kind.name()
            ))),
        },
    }
}

/// A text as `float()` reads it.
fn parse_float(text: &str) -> Option<f64> {
    let text = strings::stripped(text, "strip", None);
    let plain = text.replace('_', "");
    let separated = plain.len() != text.len();
    let misplaced = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    if separated && misplaced {
        return None;
    }
    let unsigned = plain.trim_start_matches(['+', '-']).to_lowercase();
    if matches!(unsigned.as_str(), "inf" | "infinity" | "nan")
        || unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        plain.parse().ok()
    } else {
        None
    }
}

/// A text as `int()` reads it.
fn parse_int(text: &str, base: i128) -> Option<i128> {
    let text = strings::stripped(text, "strip", None);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let prefix = match (base, lower.get(..2)) {
        (2 | 0, Some("0b")) => Some(2),
        (8 | 0, Some("0o")) => Some(8),
        (16 | 0, Some("0x")) => Some(16),
        _ => None,
    };
    let (radix, digits) = match prefix {
        Some(radix) => (radix, lower.get(2..)?.trim_start_matches('_')),
        None => (
            u32::try_from(if base == 0 { 10 } else { base }).ok()?,
            lower.as_str(),
        ),
    };
    if !(2..=36).contains(&radix)
        || digits.starts_with(['_', '-', '+'])
        || digits.ends_with('_')
        || digits.contains("__")
    {
        return None;
    }
    let value = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if negative { -value } else { value })
}

pub(super) fn int(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, default, base] = bind("int", values, ["value", "default", "base"])?;
    let value = needed(value, "value")?;
    let default = default.unwrap_or_else(|| Value::from(0));
    let base = base.map_or(Ok(10), |base| int_of(&base))?;
    let kind = Kind::of(&value);
    let read = match kind {
        Kind::Undefined => return Err(wrong("int of an undefined value")),
        Kind::Text(text) => parse_int(text, base).or_else(|| whole(parse_float(text)?).ok()),
        Kind::Float(number) if number.is_infinite() => {
            return Err(wrong("cannot convert float infinity to integer"));
        }
        Kind::Float(number) => whole(number).ok(),
        _ => kind.int(),
    };
    Ok(read.map_or(default, int_value))
}

pub(super) fn float(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, default] = bind("float", values, ["value", "default"])?;
    let value = needed(value, "value")?;
    let kind = Kind::of(&value);
    let read = match kind {
        Kind::Undefined => return Err(wrong("float of an undefined value")),
        Kind::Text(text) => parse_float(text),
        _ => kind.float(),
    };
    let default = || default.unwrap_or_else(|| Value::from(0.0));
    Ok(read.map_or_else(default, Value::from))
}

pub(super) fn round(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, precision, method] = bind("round", values, ["value", "precision", "method"])?;
    let value = needed(value, "value")?;
    let precision = precision.map_or(Ok(0), |precision| int_of(&precision))?;
    let method = method.unwrap_or_else(|| Value::from("common"));
    let kind = Kind::of(&value);
    let Some(number) = kind.float() else {
        let name = kind.name();
        return Err(wrong(format!(
            "type {name} doesn't define __round__ method"
        )));
    };
    let power = i32::try_from(precision).map_or(1.0, |precision| 10_f64.powi(precision));
    match method.as_str() {
        Some("common") => match kind.int() {
            Some(int) if precision >= 0 => Ok(int_value(int)),
            Some(_) => whole(rounded(number, precision)).map(int_value),
            None => Ok(Value::from(rounded(number, precision))),
        },
        Some("ceil") => Ok(Value::from((number * power).ceil() / power)),
        Some("floor") => Ok(Value::from((number * power).floor() / power)),
        _ => Err(wrong("method must be common, ceil or floor")),
    }
}

pub(super) fn sum(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [each, attribute, start] = bind("sum", values, ["iterable", "attribute", "start"])?;
    let mut sum = start.unwrap_or_else(|| Value::from(0));
    if matches!(Kind::of(&sum), Kind::Text(_)) {
        return Err(wrong("sum() can't sum strings"));
    }
    for item in items(&needed(each, "iterable")?)? {
        let item = match &attribute {
            Some(attribute) => path(&item, attribute, None)?,
            None => item,
        };
        sum = operators::add(state, &[sum, item])?;
    }
    Ok(sum)
}

pub(super) fn file_size(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    const PREFIXES: [char; 8] = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];
    let [value, binary] = bind("filesizeformat", values, ["value", "binary"])?;
    let value = needed(value, "value")?;
    let kind = Kind::of(&value);
    let bytes = match kind {
        Kind::Text(text) => parse_float(text),
        _ => kind.float(),
    };
    let bytes = bytes.ok_or_else(|| wrong("could not convert the value to float"))?;
    let binary = binary.is_some_and(|binary| binary.is_true());
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    #[allow(clippy::float_cmp)] // as Jinja compares
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", whole(bytes)?)));
    }
    let mut unit = base;
    let mut prefix = 'k';
    for one in PREFIXES {
        (unit, prefix) = (unit * base, one);
        if bytes < unit {
            break;
        }
    }
    let name = match (binary, prefix) {
        (true, 'k') => "KiB".into(),
        (true, prefix) => format!("{prefix}iB"),
        (false, prefix) => format!("{prefix}B"),
    };
    Ok(Value::from(format!("{:.1} {name}", base * bytes / unit)))
}
