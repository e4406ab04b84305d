//! A conversation, as callers and chat templates have it. The files of sessions store it as JSON, so names must not
//! change.

use serde::{Deserialize, Serialize};

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// Returns the name that chat templates use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Returns the role of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
    /// The assistant's thoughts before the content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The assistant's tool calls after the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The id of the call whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The whole answer as the model spelled it, if it was generated here and differs from the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelled: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
}

impl Message {
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning: String::new(),
            calls: Vec::new(),
            call_id: None,
            spelled: None,
        }
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.content.len() + self.reasoning.len() + calls.sum::<usize>()
    }
}
