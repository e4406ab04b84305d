//! Builds messages of a conversation from a role and plain fields, and checks that the fields suit the role.

use super::error::Error;
use super::parts::{GivenImage, MOST_IMAGES, Part};
use super::text::{TEXT_BYTES, shortened};
use crate::engine::{Message, Role};
use crate::tools;

/// Messages of one call; messages of the shortest kind fill a context of 40,000 tokens.
pub const MESSAGES: usize = 8192;

/// The fields of a message that the model reads; `None` if the caller left one out.
#[derive(Clone, Debug, Default)]
pub struct MessageFields {
    pub content: Option<String>,
    /// The content as texts and images, in place of `content`.
    pub parts: Option<Vec<Part>>,
    pub reasoning: Option<String>,
    /// Calls of tools, as JSON text.
    pub calls: Option<String>,
    pub call_id: Option<String>,
}

impl MessageFields {
    /// The names of the fields of a message. `partial` and `dropped` are reported by the daemon; a caller may give them
    /// back, and they change nothing.
    pub const NAMES: &str = "\"content\", \"parts\", \"reasoning\", \"tool_calls\", \"tool_call_id\", \"partial\" and \"dropped\"";

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

    /// Returns the message with these fields, and its images. It is the message `number` of its call.
    ///
    /// # Errors
    /// A text that names the field that is missing, wrong, or not a field of this role.
    pub fn message(self, role: Role, number: usize) -> Result<(Message, Vec<PlacedImage>), String> {
        let Self {
            content,
            parts,
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
        let (content, images) = match (content, parts) {
            (Some(_), Some(_)) => {
                return Err(
                    "it has both \"content\" and \"parts\"; make the text a part, or leave one out"
                        .into(),
                );
            }
            (None, Some(parts)) => placed(parts, number),
            (Some(content), None) => (content, Vec::new()),
            (None, None) if !calls.is_empty() => (String::new(), Vec::new()),
            (None, None) => return Err("it has no \"content\"".into()),
        };
        if !images.is_empty() && [Role::System, Role::Assistant].contains(&role) {
            let role = role.name();
            return Err(format!(
                "it is by {role:?} and has an image; only messages by \"user\" and \"tool\" have images"
            ));
        }
        let message = Message {
            reasoning: reasoning.unwrap_or_default(),
            calls,
            call_id,
            ..Message::new(role, content)
        };
        Ok((message, images))
    }
}

/// Returns the text of the parts, and the images with their places in it.
fn placed(parts: Vec<Part>, message: usize) -> (String, Vec<PlacedImage>) {
    let (mut content, mut images) = (String::new(), Vec::new());
    for (number, part) in parts.into_iter().enumerate() {
        match part {
            Part::Text(text) => content.push_str(&text),
            Part::Image(image) => images.push(PlacedImage {
                message,
                at: content.len(),
                given_as: (message, number),
                image,
            }),
        }
    }
    (content, images)
}

/// An image and its place in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedImage {
    /// The index of its message in the conversation.
    pub message: usize,
    /// The byte of the message's content before which it stands.
    pub at: usize,
    /// The numbers of its message and of its part in the call, for errors.
    pub given_as: (usize, usize),
    pub image: GivenImage,
}

/// Messages as a caller gives them. The content of each is its text; the images stand beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenMessages {
    pub messages: Vec<Message>,
    pub images: Vec<PlacedImage>,
}

impl GivenMessages {
    /// Adds a message and its images.
    ///
    /// # Errors
    /// A text, if the call then has too many images.
    pub fn push(&mut self, message: Message, images: Vec<PlacedImage>) -> Result<(), String> {
        self.messages.push(message);
        self.images.extend(images);
        if self.images.len() > MOST_IMAGES {
            return Err(format!(
                "up to it there are more than {MOST_IMAGES} images, which is the most of one call; send fewer"
            ));
        }
        Ok(())
    }

    /// Inserts a system message before all others.
    pub(super) fn insert_system(&mut self, content: String) {
        self.messages.insert(0, Message::new(Role::System, content));
        for image in &mut self.images {
            image.message += 1;
        }
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
    mut earlier: GivenMessages,
    prompt: String,
) -> GivenMessages {
    if let Some(content) = system {
        earlier.insert_system(content);
    }
    let messages = &mut earlier.messages;
    if !prompt.is_empty() || messages.iter().all(|message| message.role == Role::System) {
        messages.push(Message::new(Role::User, prompt));
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
