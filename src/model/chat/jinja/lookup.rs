//! Attributes, items and slices of values, as Jinja's immutable sandbox looks them up.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple};
use minijinja::{Error, State, Value};

use super::kind::{Kind, bind, int_of, internal, items, length, needed, pairs, wrong};
use super::objects::Group;
use super::{names, text};

/// A method of a value, before it is called.
#[derive(Debug)]
pub(super) struct Method {
    of: Value,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, values: &[Value]) -> Result<Value, Error> {
        let call = state
            .lookup(names::METHOD)
            .ok_or_else(|| wrong("there are no methods"))?;
        let mut all = vec![self.of.clone(), Value::from(self.name.as_str())];
        all.extend_from_slice(values);
        call.call(state, &all)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {}>", self.name)
    }
}

/// All methods of texts, none of which changes the text.
const OF_TEXTS: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

const OF_DICTS: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const OF_LISTS: [&str; 3] = ["copy", "count", "index"];
const OF_TUPLES: [&str; 2] = ["count", "index"];

/// The methods that change their object, which the sandbox leaves undefined.
const CHANGING: [&str; 11] = [
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

/// Returns the result of Python's `getattr`; the inner error means that the sandbox hides it.
fn attribute(value: &Value, name: &str) -> Option<Result<Value, ()>> {
    let method = || {
        Some(Ok(Value::from_object(Method {
            of: value.clone(),
            name: name.to_owned(),
        })))
    };
    if name.starts_with("__") && name.ends_with("__") && name.len() > 4 {
        return Some(Err(()));
    }
    match Kind::of(value) {
        Kind::Text(_) if OF_TEXTS.contains(&name) => method(),
        Kind::Dict if OF_DICTS.contains(&name) => method(),
        Kind::Dict if matches!(name, "clear" | "pop" | "popitem" | "setdefault" | "update") => {
            Some(Err(()))
        }
        Kind::List if OF_LISTS.contains(&name) => method(),
        Kind::List
            if CHANGING.contains(&name) && !matches!(name, "popitem" | "setdefault" | "update") =>
        {
            Some(Err(()))
        }
        Kind::Tuple => {
            let group = value.downcast_object_ref::<Group>();
            match (group, name) {
                (Some(group), "grouper") => Some(Ok(group.grouper.clone())),
                (Some(group), "list") => Some(Ok(group.list.clone())),
                _ if OF_TUPLES.contains(&name) => method(),
                _ => None,
            }
        }
        Kind::View(view) if view.range().is_some() && OF_TUPLES.contains(&name) => method(),
        Kind::Int(_) | Kind::Bool(_) if matches!(name, "real" | "numerator") => {
            Some(Ok(value.clone()))
        }
        Kind::Int(_) | Kind::Bool(_) if matches!(name, "imag" | "denominator") => {
            Some(Ok(Value::from(i64::from(name == "denominator"))))
        }
        Kind::Int(_) if name == "bit_length" => method(),
        Kind::Float(_) if name == "is_integer" => method(),
        Kind::Other => match (internal(value), name) {
            (Some("Loop"), "cycle" | "changed") => method(),
            (Some("Macro"), "caller" | "catch_kwargs" | "catch_varargs") => None,
            (Some("Macro"), "arguments") => {
                let names = value.get_attr(name).and_then(|names| items(&names));
                names.ok().map(|names| Ok(Tuple::from(names).into()))
            }
            _ if value
                .as_object()
                .is_some_and(|object| object.type_name().ends_with("Cycler"))
                && matches!(name, "next" | "reset") =>
            {
                method()
            }
            _ => value
                .get_attr(name)
                .ok()
                .filter(|found| !found.is_undefined())
                .map(Ok),
        },
        _ => None,
    }
}

fn undefined(name: &str) -> Error {
    wrong(format!("an undefined value has no attribute {name:?}"))
}

/// `value.name`: the attribute, or else the item.
pub(super) fn attr(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, name] = bind("getattr", values, ["value", "name"])?;
    let (value, name) = (needed(value, "value")?, needed(name, "name")?);
    let name = name.as_str().unwrap_or_default();
    if value.is_undefined() {
        return Err(undefined(name));
    }
    Ok(match attribute(&value, name) {
        Some(found) => found.unwrap_or_default(),
        None => of_dict(&value, &Value::from(name)).unwrap_or_default(),
    })
}

/// Returns the attribute alone, for the filter `attr`.
pub(super) fn attr_alone(value: &Value, name: &str) -> Value {
    attribute(value, name)
        .and_then(Result::ok)
        .unwrap_or_default()
}

pub(super) fn of_dict(value: &Value, key: &Value) -> Option<Value> {
    match Kind::of(value) {
        Kind::Dict => value.as_object()?.get_value(key),
        _ => None,
    }
}

/// `value[key]`: the item, or else the attribute.
pub(super) fn item(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, key] = bind("getitem", values, ["value", "key"])?;
    lookup(&needed(value, "value")?, &needed(key, "key")?)
}

/// Looks up a key as `item` does, for filters that have names of attributes.
pub(super) fn lookup(value: &Value, key: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(undefined(&text::str(key)));
    }
    let found = match Kind::of(value) {
        Kind::Dict => of_dict(value, key),
        Kind::Text(text) => at(key, text.chars().count())
            .and_then(|at| text.chars().nth(at))
            .map(|c| Value::from(c.to_string())),
        Kind::List | Kind::Tuple => {
            let object = value.as_object();
            at(key, length(value)?).and_then(|at| object?.get_value(&Value::from(at)))
        }
        Kind::View(view) if view.range().is_some() => {
            at(key, view.items().len()).and_then(|at| view.items().get(at).cloned())
        }
        _ => None,
    };
    let attribute = || attribute(value, key.as_str()?)?.ok();
    Ok(found.or_else(attribute).unwrap_or_default())
}

/// Returns the position of an index.
fn at(key: &Value, length: usize) -> Option<usize> {
    let at = Kind::of(key).int()?;
    let length = i128::try_from(length).ok()?;
    let at = if at < 0 { at + length } else { at };
    usize::try_from(at).ok().filter(|_| at < length)
}

/// `value[start:stop:step]`.
pub(super) fn slice(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, start, stop, stride] = bind("slice", values, ["value", "start", "stop", "step"])?;
    let value = needed(value, "value")?;
    let bound = |bound: Option<Value>| match bound {
        None => Ok(None),
        Some(bound) if bound.is_none() => Ok(None),
        Some(bound) => int_of(&bound).map(Some),
    };
    let stride = bound(stride)?.unwrap_or(1);
    if stride == 0 {
        return Err(wrong("slice step cannot be zero"));
    }
    let (start, stop) = (bound(start)?, bound(stop)?);
    let indices = |length: usize| indices(length, start, stop, stride);
    Ok(match Kind::of(&value) {
        Kind::Text(text) if stride == 1 => {
            let indices = indices(text.chars().count());
            let first = indices.first().copied().unwrap_or_default();
            let chars = text.chars().skip(first).take(indices.len());
            chars.collect::<String>().into()
        }
        Kind::Text(text) => {
            let chars: Vec<char> = text.chars().collect();
            let indices = indices(chars.len());
            let chars = indices.iter().filter_map(|at| chars.get(*at));
            chars.collect::<String>().into()
        }
        kind @ (Kind::List | Kind::Tuple) => {
            let items = items(&value)?;
            let indices = indices(items.len());
            let items = indices.iter().filter_map(|at| items.get(*at)).cloned();
            match kind {
                Kind::Tuple => Tuple::from(items.collect::<Vec<_>>()).into(),
                _ => Value::from(items.collect::<Vec<_>>()),
            }
        }
        Kind::View(view) if view.range().is_some() => {
            let items = indices(view.items().len()).into_iter();
            let items = items.filter_map(|at| view.items().get(at)).cloned();
            Value::from(items.collect::<Vec<_>>())
        }
        other => {
            let name = other.name();
            return Err(wrong(format!("'{name}' object cannot be sliced")));
        }
    })
}

/// The indices that Python's `slice` selects.
pub(super) fn indices(
    length: usize,
    start: Option<i128>,
    stop: Option<i128>,
    stride: i128,
) -> Vec<usize> {
    let length = i128::try_from(length).unwrap_or(i128::MAX);
    let (lowest, highest) = if stride > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let place = |bound: Option<i128>, default: i128| match bound {
        None => default,
        Some(at) if at < 0 => (at.saturating_add(length)).max(lowest),
        Some(at) => at.min(highest),
    };
    let (first, end) = if stride > 0 {
        (lowest, highest)
    } else {
        (highest, lowest)
    };
    let (mut at, end) = (place(start, first), place(stop, end));
    let mut selected = Vec::new();
    while (stride > 0 && at < end) || (stride < 0 && at > end) {
        selected.extend(usize::try_from(at));
        at = at.saturating_add(stride);
    }
    selected
}

/// The pairs of a dict as tuples.
pub(super) fn tuples(dict: &Value) -> Vec<Value> {
    let pairs = pairs(dict).into_iter();
    let tuples = pairs.map(|(key, value)| Value::from(Tuple::from([key, value])));
    tuples.collect()
}
