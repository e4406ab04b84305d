//! A conversation, as callers and chat templates know it. As JSON it is what the files of sessions keep: a name here stays.

use serde::{Deserialize, Serialize};

/// Who speaks in a conversation.
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

    /// The name that chat templates know it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
    /// What an assistant thought before it said that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools that an assistant called after that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// All of an answer as the model spelled it, where it was made here and that is not just its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelled: Option<String>,
}

/// A call of a tool.
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

    /// Bytes of all that it says.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.content.len() + self.reasoning.len() + calls.sum::<usize>()
    }
}
