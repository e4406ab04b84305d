//! The arguments of filters.

use minijinja::{Error, Value};

use crate::model::chat::jinja::kind::{Kind, split, wrong};
use crate::model::chat::jinja::lookup::lookup;

/// Looks an attribute up as filters do: dots between names, numbers as indices.
pub(super) fn path(
    value: &Value,
    attribute: &Value,
    default: Option<&Value>,
) -> Result<Value, Error> {
    let Kind::Text(attribute) = Kind::of(attribute) else {
        return if attribute.is_none() {
            Ok(value.clone())
        } else {
            lookup(value, attribute).map(|found| or(found, default))
        };
    };
    let mut value = value.clone();
    for part in attribute.split('.') {
        let index = part.parse::<i64>().ok();
        let index = index.filter(|_| part.chars().all(|c| c.is_ascii_digit()));
        let key = index.map_or_else(|| Value::from(part), Value::from);
        value = or(lookup(&value, &key)?, default);
    }
    Ok(value)
}

fn or(found: Value, default: Option<&Value>) -> Value {
    match default {
        Some(default) if found.is_undefined() && !default.is_none() => default.clone(),
        _ => found,
    }
}

/// Returns the value of a filter, and its other arguments.
pub(super) fn value_first(values: &[Value]) -> Result<(&Value, &[Value]), Error> {
    values
        .split_first()
        .ok_or_else(|| wrong("a filter has a value"))
}

/// The name of a filter or test, its arguments, and named arguments of `map` itself.
pub(super) type Named = Vec<(String, Value)>;

/// Returns the value of a filter, its other arguments, and the named ones.
pub(super) fn parts(values: &[Value]) -> Result<(&Value, &[Value], Named), Error> {
    let (positional, named) = split(values)?;
    let (value, rest) = value_first(positional)?;
    Ok((value, rest, named))
}
