//! The Python type of a value: minijinja has one type for all sequences, and one for all mappings.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::objects::{Generator, Group, View};

/// A value by its Python type.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(&'a str),
    List,
    Tuple,
    Dict,
    View(&'a View),
    Generator(&'a Generator),
    /// A macro, a loop, a namespace, a method or a function.
    Other,
}

/// Types of minijinja that look like mappings, but not to Python.
const INTERNAL: [&str; 4] = ["Namespace", "Loop", "Macro", "Module"];

impl<'a> Kind<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        match value.kind() {
            ValueKind::Undefined => Self::Undefined,
            ValueKind::None => Self::None,
            ValueKind::Bool => Self::Bool(value.is_true()),
            ValueKind::Number => number(value),
            ValueKind::String => Self::Text(value.as_str().unwrap_or_default()),
            ValueKind::Map if internal(value).is_some() => Self::Other,
            ValueKind::Map => Self::Dict,
            ValueKind::Seq | ValueKind::Iterable => {
                if let Some(view) = value.downcast_object_ref::<View>() {
                    Self::View(view)
                } else if let Some(generator) = value.downcast_object_ref::<Generator>() {
                    Self::Generator(generator)
                } else if value.is_tuple() || value.downcast_object_ref::<Group>().is_some() {
                    Self::Tuple
                } else {
                    Self::List
                }
            }
            _ => Self::Other,
        }
    }

    /// The name that Python has for the type.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Undefined => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::List => "list",
            Self::Tuple => "tuple",
            Self::Dict => "dict",
            Self::View(view) => view.name(),
            Self::Generator(_) => "generator",
            Self::Other => "object",
        }
    }

    /// The value as an int, which a bool is too.
    pub(super) fn int(&self) -> Option<i128> {
        match self {
            Self::Bool(value) => Some(i128::from(*value)),
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a float, if it is a number.
    #[allow(clippy::cast_precision_loss)] // as Python converts
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            other => other.int().map(|value| value as f64),
        }
    }
}

fn number(value: &Value) -> Kind<'_> {
    let int = value
        .is_integer()
        .then(|| i128::try_from(value.clone()).ok());
    match int.flatten() {
        Some(int) => Kind::Int(int),
        None => Kind::Float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
    }
}

/// The name of minijinja's own type, if a value is of one.
pub(super) fn internal(value: &Value) -> Option<&'static str> {
    let name = value.as_object()?.type_name();
    let mut each = INTERNAL.into_iter();
    each.find(|one| name.rsplit("::").next() == Some(one))
}

/// An int as small as minijinja has it.
pub(super) fn int(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

/// Returns the error for an operation that Python refuses.
pub(super) fn wrong(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

/// Returns the items of an iteration over a value.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    match Kind::of(value) {
        Kind::Undefined => Ok(Vec::new()),
        Kind::Text(text) => Ok(text.chars().map(|c| Value::from(c.to_string())).collect()),
        Kind::View(view) => Ok(view.items().to_vec()),
        Kind::Generator(generator) => Ok(generator.rest()),
        Kind::List | Kind::Tuple | Kind::Dict => Ok(value.try_iter()?.collect()),
        other => Err(wrong(format!("'{}' object is not iterable", other.name()))),
    }
}

/// The pairs of a dict.
pub(super) fn pairs(value: &Value) -> Vec<(Value, Value)> {
    let object = value.as_object();
    let pairs = object.and_then(minijinja::value::DynObject::try_iter_pairs);
    pairs.map(Iterator::collect).unwrap_or_default()
}

/// `len` of a value.
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    match Kind::of(value) {
        Kind::Undefined => Ok(0),
        Kind::Text(text) => Ok(text.chars().count()),
        Kind::View(view) => Ok(view.items().len()),
        Kind::List | Kind::Tuple | Kind::Dict => Ok(value.len().unwrap_or_default()),
        other => {
            let name = other.name();
            Err(wrong(format!("object of type '{name}' has no len()")))
        }
    }
}

/// A named argument.
type Named = (String, Value);

/// Positional and named arguments.
pub(super) fn split(values: &[Value]) -> Result<(&[Value], Vec<Named>), Error> {
    match values.split_last() {
        Some((last, before)) if last.is_kwargs() => {
            let named = Kwargs::try_from(last.clone())?;
            let keys: Vec<_> = named.args().map(str::to_owned).collect();
            let each = keys.into_iter().map(|key| {
                let value = named.get::<Value>(&key)?;
                Ok((key, value))
            });
            Ok((before, each.collect::<Result<_, Error>>()?))
        }
        _ => Ok((values, Vec::new())),
    }
}

/// The arguments of a function with these parameters.
pub(super) fn bind<const N: usize>(
    function: &str,
    values: &[Value],
    parameters: [&str; N],
) -> Result<[Option<Value>; N], Error> {
    let (positional, named) = split(values)?;
    if positional.len() > N {
        let given = positional.len();
        return Err(wrong(format!(
            "{function}() takes {N} arguments but {given} were given"
        )));
    }
    let mut bound = [const { None }; N];
    for (place, value) in bound.iter_mut().zip(positional) {
        *place = Some(value.clone());
    }
    for (name, value) in named {
        let at = parameters.iter().position(|parameter| *parameter == name);
        match at.and_then(|at| bound.get_mut(at)) {
            Some(place @ None) => *place = Some(value),
            Some(Some(_)) => {
                return Err(wrong(format!(
                    "{function}() got multiple values for argument '{name}'"
                )));
            }
            None => {
                return Err(wrong(format!(
                    "{function}() got an unexpected keyword argument '{name}'"
                )));
            }
        }
    }
    Ok(bound)
}

/// An argument that has to be there.
pub(super) fn needed(value: Option<Value>, name: &str) -> Result<Value, Error> {
    value.ok_or_else(|| wrong(format!("missing a required argument: '{name}'")))
}

/// An argument that is an int.
pub(super) fn int_of(value: &Value) -> Result<i128, Error> {
    let kind = Kind::of(value);
    kind.int().ok_or_else(|| {
        let name = kind.name();
        wrong(format!(
            "'{name}' object cannot be interpreted as an integer"
        ))
    })
}

/// An argument that is a text.
pub(super) fn text_of(value: &Value) -> Result<&str, Error> {
    match Kind::of(value) {
        Kind::Text(text) => Ok(text),
        other => Err(wrong(format!("expected str, not {}", other.name()))),
    }
}

/// An argument that counts something which takes memory.
pub(super) fn count(value: i128, bytes: usize) -> Result<usize, Error> {
    let count = usize::try_from(value.max(0)).unwrap_or(usize::MAX);
    match count.checked_mul(bytes) {
        Some(all) if all <= super::limits::LARGEST => Ok(count),
        _ => Err(wrong("it would need too much memory")),
    }
}
