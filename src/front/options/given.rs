//! Options as a caller gave them. A front end decodes its calls into these plain values.

use super::allowed::{Allowed, STOPS};
use crate::front::error::OptionError;
use crate::front::messages::GivenMessages;
use crate::front::text::shortened;

/// The options of a call.
#[derive(Clone, Debug, Default)]
pub struct GivenOptions {
    pub kept: Vec<GivenOption>,
    /// Whether there were more than [`MOST_OPTIONS`](super::MOST_OPTIONS).
    pub more: bool,
}

/// One option of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenOption {
    /// The name, shortened as errors quote it.
    pub name: String,
    pub value: Value,
    /// The front end's name of the value's type, for errors; may be empty.
    pub type_name: String,
}

/// A plain value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    /// An integer of any type: languages differ in the type of a plain number.
    Whole(i128),
    Number(f64),
    Text(String),
    /// The bytes of a text that was too long to keep.
    Long(usize),
    /// At most [`TEXTS`](super::TEXTS) texts. An empty array of any type counts as one of texts.
    Texts(Vec<String>),
    /// The number of texts of an array with too many.
    Many(usize),
    /// Messages, or the reason why one of them is wrong.
    Messages(Result<GivenMessages, String>),
    /// A value of another type, of which nothing is kept.
    Other,
}

impl GivenOptions {
    /// Removes an option that the front end reads itself; returns its last value.
    pub fn take(&mut self, name: &str) -> Option<GivenOption> {
        let taken = self.kept.extract_if(.., |option| option.name == name);
        taken.last()
    }
}

impl GivenOption {
    /// Describes the value and its type for an error.
    #[must_use]
    pub fn describe(&self) -> String {
        let kind = shortened(&self.type_name);
        let of_kind = |value: String| {
            if kind.is_empty() {
                value
            } else {
                format!("{value} ({kind})")
            }
        };
        match &self.value {
            Value::Text(text) => of_kind(format!("{:?}", shortened(text))),
            Value::Long(bytes) => of_kind(format!("a text of {bytes} bytes")),
            Value::Bool(value) => of_kind(value.to_string()),
            Value::Whole(value) => of_kind(value.to_string()),
            Value::Number(value) => of_kind(value.to_string()),
            Value::Many(texts) => of_kind(format!("{texts} texts")),
            Value::Texts(texts) if texts.len() > STOPS => of_kind(format!("{} texts", texts.len())),
            Value::Texts(_) | Value::Messages(_) | Value::Other => format!("of type {kind}"),
        }
    }

    /// Returns the error of a value that is not allowed.
    pub(super) fn wrong(&self, allowed: Allowed) -> OptionError {
        OptionError::Value {
            name: self.name.clone(),
            given: self.describe(),
            allowed,
        }
    }
}
