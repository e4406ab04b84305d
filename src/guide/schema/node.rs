//! A schema that is being prepared, and the keywords that are not enforced.

use serde_json::{Map, Value};

use super::pointer::part;

/// A keyword that is not enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::guide) struct Unchecked {
    /// A JSON pointer to the keyword.
    pub(in crate::guide) pointer: String,
    pub(in crate::guide) why: String,
}

/// One schema.
pub(super) struct Node<'a> {
    pub(super) pointer: &'a str,
    pub(super) members: Map<String, Value>,
    pub(super) source: &'a Value,
    pub(super) unchecked: &'a mut Vec<Unchecked>,
    pub(super) required: &'a mut Vec<(String, String)>,
}

impl Node<'_> {
    /// Removes a keyword that cannot be enforced, and lists it.
    pub(super) fn give_up(&mut self, keyword: &str, why: impl Into<String>) {
        if self.members.shift_remove(keyword).is_some() {
            self.list(keyword, why);
        }
    }

    /// Lists a keyword that is not enforced exactly.
    pub(super) fn list(&mut self, keyword: &str, why: impl Into<String>) {
        self.unchecked.push(Unchecked {
            pointer: format!("{}{}", self.pointer, part(keyword)),
            why: why.into(),
        });
    }
}
