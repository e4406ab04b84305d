//! Builds messages of a conversation from a role and plain fields, and checks that the fields suit the role.

use super::error::Error;
use super::text::{TEXT_BYTES, shortened};
use crate::engine::{Message, Role};
use crate::tools;

/// Messages of one call; messages of the shortest kind fill a context of 40,000 tokens.
pub const MESSAGES: usize = 8192;

/// The fields of a message that the model reads; `None` if the caller left one out.
#[derive(Clone, Debug, Default)]
pub struct MessageFields {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    /// Calls of tools, as JSON text.
    pub calls: Option<String>,
    pub call_id: Option<String>,
}

impl MessageFields {
    /// The names of the fields of a message. `partial` and `dropped` are reported by the daemon; a caller may give them
    /// back, and they change nothing.
    pub const NAMES: &str =
        "\"content\", \"reasoning\", \"tool_calls\", \"tool_call_id\", \"partial\" and \"dropped\"";

    /// Returns the field of this name; `None` if no field that the model reads has it.
    pub fn field(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "content" => &mut self.content,
            "reasoning" => &mut self.reasoning,
            "tool_calls" => &mut self.calls,
            "tool_call_id" => &mut self.call_id,
            _ => return None,
        })
    }

    /// Returns the message with these fields.
    ///
    /// # Errors
    /// A text that names the field that is missing, wrong, or not a field of this role.
    pub fn message(self, role: Role) -> Result<Message, String> {
        let Self {
            content,
            reasoning,
            calls,
            call_id,
        } = self;
        let only = |name: &str, by: Role| {
            let by = by.name();
            Err(format!("only a message by {by:?} has {name:?}"))
        };
        if role != Role::Assistant && (reasoning.is_some() || calls.is_some()) {
            let name = if calls.is_some() {
                "tool_calls"
            } else {
                "reasoning"
            };
            return only(name, Role::Assistant);
        }
        if role != Role::Tool && call_id.is_some() {
            return only("tool_call_id", Role::Tool);
        }
        let calls = match calls {
            Some(text) => tools::read(&text).map_err(|why| format!("its \"tool_calls\": {why}"))?,
            None => Vec::new(),
        };
        let content = match content {
            Some(content) => content,
            None if !calls.is_empty() => String::new(),
            None => return Err("it has no \"content\"".into()),
        };
        Ok(Message {
            reasoning: reasoning.unwrap_or_default(),
            calls,
            call_id,
            ..Message::new(role, content)
        })
    }
}

/// Returns the role of this name.
///
/// # Errors
/// A text that lists the known roles.
pub fn role(name: &str) -> Result<Role, String> {
    Role::from_name(name).ok_or_else(|| {
        let (name, known) = (shortened(name), Role::ALL.map(Role::name).join(", "));
        format!("unknown role {name:?}; known are {known}")
    })
}

/// Returns the conversation of a system message, earlier messages and a prompt. An empty prompt adds no message if the
/// earlier messages are more than system messages.
#[must_use]
pub fn conversation(
    system: Option<String>,
    mut earlier: Vec<Message>,
    prompt: String,
) -> Vec<Message> {
    if let Some(content) = system {
        earlier.insert(0, Message::new(Role::System, content));
    }
    if !prompt.is_empty() || earlier.iter().all(|message| message.role == Role::System) {
        earlier.push(Message::new(Role::User, prompt));
    }
    earlier
}

/// Returns the error of a text that was not kept because it has too many bytes.
#[must_use]
pub fn too_long(what: &str, bytes: usize) -> Error {
    Error::Messages(format!(
        "the {what} has {bytes} bytes; at most {TEXT_BYTES} are taken in one call"
    ))
}
