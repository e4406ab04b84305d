//! Macros that use `varargs` or `kwargs`.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Kwargs, Object, ObjectRepr, Tuple};
use minijinja::{Error, State, Value};

use super::kind::{bind, items, needed, split};

/// A macro, and the assignment of its arguments.
#[derive(Debug)]
pub(super) struct Macro {
    inner: Value,
    parameters: Vec<Value>,
    varargs: bool,
    kwargs: bool,
}

/// Wraps a macro whose last parameters are `varargs` and `kwargs`.
pub(super) fn wrapped(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let names = ["macro", "parameters", "varargs", "kwargs"];
    let [inner, parameters, varargs, kwargs] = bind("macro", values, names)?;
    Ok(Value::from_object(Macro {
        inner: needed(inner, "macro")?,
        parameters: items(&needed(parameters, "parameters")?)?,
        varargs: varargs.is_some_and(|varargs| varargs.is_true()),
        kwargs: kwargs.is_some_and(|kwargs| kwargs.is_true()),
    }))
}

impl Object for Macro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        match name {
            "arguments" => Some(Value::from(self.parameters.clone())),
            _ => self.inner.get_attr(name).ok(),
        }
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, values: &[Value]) -> Result<Value, Error> {
        let (positional, named) = split(values)?;
        let own = positional.len().min(self.parameters.len());
        let (own, rest) = positional.split_at(own);
        let is_parameter = |name: &str| {
            name == "caller" || self.parameters.iter().any(|one| one.as_str() == Some(name))
        };
        let (mut passed, other): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|(name, _)| is_parameter(name));
        if self.varargs {
            passed.push(("varargs".into(), Tuple::from(rest.to_vec()).into()));
        } else if !rest.is_empty() {
            return self.inner.call(state, values);
        }
        if self.kwargs {
            passed.push(("kwargs".into(), Value::from_pairs(other)));
        } else {
            passed.extend(other);
        }
        let mut arguments = own.to_vec();
        if arguments.len() < self.parameters.len() || !passed.is_empty() {
            arguments.push(passed.into_iter().collect::<Kwargs>().into());
        }
        self.inner.call(state, &arguments)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}
