//! Functions that templates call.

use minijinja::{Error, ErrorKind, State, Value};

use super::kind::{Kind, bind, int, int_of, items, needed, pairs, split, wrong};
use super::objects::{Of, View};
use super::text;

/// The error that a template raised.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::model::chat) struct Raised(pub(in crate::model::chat) String);

pub(super) fn raise_exception(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [message] = bind("raise_exception", values, ["message"])?;
    let message = text::str(&needed(message, "message")?);
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Returns the sequence that a loop goes through.
pub(super) fn iterate(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("iter", values, ["value"])?;
    let value = needed(value, "value")?;
    match Kind::of(&value) {
        Kind::List | Kind::Tuple => Ok(value),
        _ => items(&value).map(Value::from),
    }
}

pub(super) fn dict(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (positional, named) = split(values)?;
    let mut all: Vec<(Value, Value)> = Vec::new();
    match positional {
        [] => {}
        [first] if matches!(Kind::of(first), Kind::Dict) => all = pairs(first),
        [first] => {
            for pair in items(first)? {
                match items(&pair)?.as_slice() {
                    [key, value] => all.push((key.clone(), value.clone())),
                    _ => return Err(wrong("dict takes pairs")),
                }
            }
        }
        _ => return Err(wrong("dict expected at most 1 argument")),
    }
    all.extend(
        named
            .into_iter()
            .map(|(name, value)| (Value::from(name), value)),
    );
    Ok(Value::from_pairs(all))
}

/// Returns `range`, with the limit of Jinja's sandbox.
pub(super) fn range(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    const LONGEST: usize = 100_000;
    let [first, second, stride] = bind("range", values, ["start", "stop", "step"])?;
    let first = int_of(&needed(first, "stop")?)?;
    let (start, stop) = match second {
        Some(stop) => (first, int_of(&stop)?),
        None => (0, first),
    };
    let stride = stride.map_or(Ok(1), |stride| int_of(&stride))?;
    let mut items = Vec::new();
    let mut at = start;
    while (stride > 0 && at < stop) || (stride < 0 && at > stop) {
        if items.len() == LONGEST {
            return Err(wrong("the range is too big; 100000 is its maximum size"));
        }
        items.push(int(at));
        at = at.saturating_add(stride);
    }
    if stride == 0 {
        return Err(wrong("range() arg 3 must not be zero"));
    }
    Ok(View::value(Of::Range([start, stop, stride]), items))
}

/// Returns a namespace with the values of a dict.
pub(super) fn namespace(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    let values = dict(state, values)?;
    minijinja::functions::namespace(Some(values.into()))
}

/// `bool` of a value.
pub(super) fn truth(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value] = bind("bool", values, ["value"])?;
    let value = needed(value, "value")?;
    let is_object = matches!(Kind::of(&value), Kind::Other);
    Ok(Value::from(is_object || value.is_true()))
}

/// Jinja's text of random words.
pub(super) fn lipsum(_: &mut State, _: &[Value]) -> Result<Value, Error> {
    Err(wrong("lipsum writes random words, and is not supported"))
}

/// The local time, as Python's `datetime.now().strftime` writes it: without a zone, in the C locale.
pub(super) fn strftime_now(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    const OF_PYTHON: [(&str, &str); 8] = [
        ("c", "%a %b %e %H:%M:%S %Y"),
        ("x", "%m/%d/%y"),
        ("X", "%H:%M:%S"),
        ("r", "%I:%M:%S %p"),
        ("h", "%b"),
        ("f", "%6f"),
        ("z", ""),
        ("Z", ""),
    ];
    let [format] = bind("strftime_now", values, ["format"])?;
    let format = needed(format, "format")?;
    let mut plain = String::new();
    let mut rest = format
        .as_str()
        .ok_or_else(|| wrong("strftime_now takes a text"))?;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let directive = after.get(..1).unwrap_or_default();
        match OF_PYTHON.iter().find(|(name, _)| *name == directive) {
            Some((_, instead)) => plain.push_str(instead),
            None => plain.extend(["%", directive]),
        }
        rest = after.get(directive.len()..).unwrap_or_default();
    }
    plain.push_str(rest);
    let now = jiff::Zoned::now().datetime();
    jiff::fmt::strtime::format(&plain, now)
        .map(Value::from)
        .map_err(|error| wrong(error.to_string()))
}
