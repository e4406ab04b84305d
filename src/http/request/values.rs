//! JSON values as `front` takes the values of options.

use serde_json::value::RawValue;

use super::super::raw::{self, Kind};
use crate::front::{TEXT_BYTES, TEXTS, Value};

/// Returns the JSON text of a value.
pub(super) fn json(text: &str) -> Value {
    if text.len() > TEXT_BYTES {
        Value::Long(text.len())
    } else {
        Value::Text(text.to_owned())
    }
}

/// Returns a value. Objects, and arrays of anything but texts, have none.
pub(super) fn value(raw: &RawValue) -> Value {
    match raw::kind(raw) {
        Kind::Truth => Value::Bool(raw.get() == "true"),
        Kind::Number => number(raw.get()),
        Kind::Text => match raw::text(raw) {
            Ok(text) if text.len() > TEXT_BYTES => Value::Long(text.len()),
            Ok(text) => Value::Text(text.into_owned()),
            Err(_) => Value::Other,
        },
        Kind::Array => {
            let Ok(each) = raw::array(raw, TEXTS) else {
                return Value::Many(TEXTS + 1);
            };
            let texts = each.into_iter().map(raw::text);
            let texts = texts.map(|text| text.map(std::borrow::Cow::into_owned));
            texts
                .collect::<Result<_, _>>()
                .map_or(Value::Other, Value::Texts)
        }
        Kind::Null | Kind::Object => Value::Other,
    }
}

/// Returns a number: a whole one if it is written as one.
fn number(text: &str) -> Value {
    match (text.parse(), text.parse()) {
        (Ok(whole), _) => Value::Whole(whole),
        (Err(_), Ok(number)) => Value::Number(number),
        (Err(_), Err(_)) => Value::Other,
    }
}
