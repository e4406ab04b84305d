//! Python's sequences that minijinja lacks: views of dicts, ranges, generators and groups.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use parking_lot::Mutex;

/// A sequence other than a list: the result of `keys`, `values`, `items` and `range`.
#[derive(Debug)]
pub(super) struct View {
    of: Of,
    items: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Keys,
    Values,
    Items,
    Range([i128; 3]),
}

impl View {
    pub(super) fn value(of: Of, items: Vec<Value>) -> Value {
        Value::from_object(Self { of, items })
    }

    pub(super) fn items(&self) -> &[Value] {
        &self.items
    }

    pub(super) fn name(&self) -> &'static str {
        match self.of {
            Of::Keys => "dict_keys",
            Of::Values => "dict_values",
            Of::Items => "dict_items",
            Of::Range(_) => "range",
        }
    }

    /// Returns start, stop and step of a range, which can be indexed.
    pub(super) fn range(&self) -> Option<[i128; 3]> {
        match self.of {
            Of::Range(range) => Some(range),
            _ => None,
        }
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }
}

/// An iterator that yields each item once.
#[derive(Debug)]
pub(super) struct Generator(Mutex<VecDeque<Value>>);

impl Generator {
    pub(super) fn value(items: Vec<Value>) -> Value {
        Value::from_object(Self(Mutex::new(items.into())))
    }

    pub(super) fn next(&self) -> Option<Value> {
        self.0.lock().pop_front()
    }

    /// Returns the remaining items.
    pub(super) fn rest(&self) -> Vec<Value> {
        self.0.lock().drain(..).collect()
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let generator = self.clone();
        Enumerator::Iter(Box::new(std::iter::from_fn(move || generator.next())))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<generator object>")
    }
}

/// A named tuple of `groupby`.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) grouper: Value,
    pub(super) list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(0), _) | (_, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1), _) | (_, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}
