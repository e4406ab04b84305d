//! A conversation, as callers and chat templates have it. The files of sessions store it as JSON, so names must not
//! change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::vision::Received;

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
    /// The images in the content, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
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

/// An image in the content of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageImage {
    /// The byte of the content before which it stands.
    pub at: usize,
    /// `None` if its bytes are lost: a file of a session has them only if its user wants that.
    #[serde(default, with = "received", skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<Received>>,
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
            images: Vec::new(),
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

    /// Returns the bytes of all images as received.
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        let images = self.images.iter().filter_map(|one| one.image.as_ref());
        images.map(|image| image.source().bytes.len()).sum()
    }

    /// Returns the bytes that it takes in the file of a session, its images included.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        // The images are in base64.
        self.bytes() + self.image_bytes().div_ceil(3) * 4
    }

    /// Whether it has neither text nor images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.trim().is_empty() && self.images.is_empty()
    }

    /// Whether both say the same. An image whose bytes are lost is like any other in its place.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let alike = |(one, other): (&MessageImage, &MessageImage)| {
            let images = one.image.as_ref().zip(other.image.as_ref());
            one.at == other.at && images.is_none_or(|(one, other)| one == other)
        };
        let without = |message: &Self| Self {
            images: Vec::new(),
            ..message.clone()
        };
        self.images.len() == other.images.len()
            && self.images.iter().zip(&other.images).all(alike)
            && without(self) == without(other)
    }

    /// Drops the bytes of its images. Their places stay.
    pub fn lose_images(&mut self) {
        for image in &mut self.images {
            image.image = None;
        }
    }

    /// Returns the content before each image, and what follows the last.
    pub fn split(&self) -> impl Iterator<Item = (&str, Option<&MessageImage>)> {
        let mut from = 0;
        let ends = self.images.iter().map(Some).chain([None]);
        ends.map(move |image| {
            // A file may name any place.
            let end = image.map_or(self.content.len(), |image| image.at);
            let mut end = end.clamp(from, self.content.len());
            while !self.content.is_char_boundary(end) {
                end -= 1;
            }
            let text = &self.content[from..end];
            from = end;
            (text, image)
        })
    }
}

/// Images in the files of sessions.
mod received {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::vision::Received;

    #[allow(clippy::ref_option)] // serde calls it so
    pub(super) fn serialize<S: Serializer>(
        image: &Option<Arc<Received>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        image.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Received>>, D::Error> {
        Ok(Option::<Received>::deserialize(deserializer)?.map(Arc::new))
    }
}
