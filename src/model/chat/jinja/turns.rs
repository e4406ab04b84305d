//! `cycler` and `joiner`: objects that return another value at each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Object, ObjectRepr};
use minijinja::{Error, State, Value};

use super::kind::{bind, split, wrong};

/// Cycles through its items.
#[derive(Debug)]
pub(super) struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

pub(super) fn cycler(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let (items, _) = split(values)?;
    if items.is_empty() {
        return Err(wrong("at least one item has to be provided"));
    }
    Ok(Value::from_object(Cycler {
        items: items.to_vec(),
        at: AtomicUsize::new(0),
    }))
}

impl Cycler {
    fn current(&self) -> Value {
        let at = self.at.load(Ordering::Relaxed);
        self.items.get(at).cloned().unwrap_or_default()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "current" => Some(self.current()),
            "items" => Some(Value::from(self.items.clone())),
            "pos" => Some(Value::from(self.at.load(Ordering::Relaxed))),
            _ => None,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        _: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "next" | "__next__" => {
                let current = self.current();
                let next = (self.at.load(Ordering::Relaxed) + 1) % self.items.len();
                self.at.store(next, Ordering::Relaxed);
                Ok(current)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(wrong(format!("a cycler has no method {method}"))),
        }
    }
}

/// Returns nothing at the first call, and its separator afterwards.
#[derive(Debug)]
pub(super) struct Joiner {
    separator: Value,
    used: AtomicBool,
}

pub(super) fn joiner(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [separator] = bind("joiner", values, ["sep"])?;
    Ok(Value::from_object(Joiner {
        separator: separator.unwrap_or_else(|| Value::from(", ")),
        used: AtomicBool::new(false),
    }))
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        if self.used.swap(true, Ordering::Relaxed) {
            Ok(self.separator.clone())
        } else {
            Ok(Value::from(""))
        }
    }
}
