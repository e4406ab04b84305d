//! A turn of the assistant: thoughts, a text and calls, which are items of their own, and one message for the engine.

use super::super::request::tools;
use crate::front::MessageFields;

/// The items of one turn so far.
#[derive(Debug, Default)]
pub(super) struct Turn {
    thoughts: Option<String>,
    text: Option<String>,
    calls: Vec<String>,
}

impl Turn {
    /// Whether thoughts still belong to this turn: they come before all else.
    pub(super) fn takes_thoughts(&self) -> bool {
        self.text.is_none() && self.calls.is_empty()
    }

    /// Whether a text still belongs to this turn: it comes before calls.
    pub(super) fn takes_text(&self) -> bool {
        self.takes_thoughts()
    }

    pub(super) fn think(&mut self, thoughts: &str) {
        *self.thoughts.get_or_insert_default() += thoughts;
    }

    pub(super) fn say(&mut self, text: String) {
        self.text = Some(text);
    }

    /// Adds a call. Arguments that are not an object are an error of the message.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let arguments = serde_json::Value::from(arguments).to_string();
        self.calls.push(tools::call(id, name, &arguments));
    }

    /// Returns the fields of its message; `None` without any item.
    pub(super) fn fields(self) -> Option<MessageFields> {
        let Self {
            thoughts,
            text,
            calls,
        } = self;
        if thoughts.is_none() && text.is_none() && calls.is_empty() {
            return None;
        }
        let calls = (!calls.is_empty()).then(|| format!("[{}]", calls.join(",")));
        Some(MessageFields {
            // Thoughts alone are a turn without a text.
            content: text.or_else(|| calls.is_none().then(String::new)),
            reasoning: thoughts.filter(|thoughts| !thoughts.is_empty()),
            calls,
            ..MessageFields::default()
        })
    }
}
