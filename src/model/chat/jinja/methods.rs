//! Calls of methods that `lookup` found.

use minijinja::{Error, State, Value};

use super::compare::equals;
use super::kind::{Kind, bind, int_of, items, needed, pairs, wrong};
use super::lookup::{indices, of_dict, tuples};
use super::objects::{Of, View};
use super::{strings, text};

/// Calls a method: the arguments are the object, the method's name, and the method's arguments.
pub(super) fn call(state: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [of, name, values @ ..] = values else {
        return Err(wrong("a method has an object and a name"));
    };
    let name = name.as_str().unwrap_or_default();
    match Kind::of(of) {
        Kind::Text(text) => strings::call(text, name, values),
        Kind::Dict => dict_method(of, name, values),
        Kind::List | Kind::Tuple | Kind::View(_) => list_method(of, name, values),
        Kind::Int(int) => Ok(Value::from(128 - int.unsigned_abs().leading_zeros())),
        Kind::Float(float) => Ok(Value::from(float.fract() == 0.0)),
        _ if name == "cycle" && values.is_empty() => Err(wrong("no items for cycling given")),
        _ => of.call_method(state, name, values),
    }
}

fn dict_method(of: &Value, name: &str, values: &[Value]) -> Result<Value, Error> {
    let none = || bind(name, values, []).map(|[]| ());
    match name {
        "get" => {
            let [key, default] = bind(name, values, ["key", "default"])?;
            let found = of_dict(of, &needed(key, "key")?).or(default);
            Ok(found.unwrap_or_else(|| Value::from(())))
        }
        "keys" => {
            none()?;
            Ok(View::value(Of::Keys, items(of)?))
        }
        "values" => {
            none()?;
            let values = pairs(of).into_iter().map(|(_, value)| value);
            Ok(View::value(Of::Values, values.collect()))
        }
        "items" => {
            none()?;
            Ok(View::value(Of::Items, tuples(of)))
        }
        "copy" => {
            none()?;
            Ok(of.clone())
        }
        _ => {
            let [keys, value] = bind(name, values, ["iterable", "value"])?;
            let value = value.unwrap_or_else(|| Value::from(()));
            let keys = items(&needed(keys, "iterable")?)?;
            Ok(Value::from_pairs(
                keys.into_iter().map(|key| (key, value.clone())),
            ))
        }
    }
}

fn list_method(of: &Value, name: &str, values: &[Value]) -> Result<Value, Error> {
    match name {
        "copy" => bind(name, values, []).map(|[]| of.clone()),
        "count" => {
            let [wanted] = bind(name, values, ["value"])?;
            let wanted = needed(wanted, "value")?;
            let count = items(of)?
                .iter()
                .filter(|item| equals(item, &wanted))
                .count();
            Ok(Value::from(count))
        }
        _ => {
            let [wanted, start, stop] = bind(name, values, ["value", "start", "stop"])?;
            let wanted = needed(wanted, "value")?;
            let items = items(of)?;
            let start = start.map(|start| int_of(&start)).transpose()?;
            let stop = stop.map(|stop| int_of(&stop)).transpose()?;
            let within = indices(items.len(), start, stop, 1);
            let mut within = within.into_iter();
            let found = within.find(|at| items.get(*at).is_some_and(|item| equals(item, &wanted)));
            found
                .map(Value::from)
                .ok_or_else(|| wrong(format!("{} is not in list", text::repr(&wanted))))
        }
    }
}
