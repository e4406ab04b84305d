//! The turns of a conversation. Anthropic's API takes consecutive messages by the user, or by the assistant, as one turn, and
//! many chat templates refuse a conversation whose roles do not alternate.

use crate::engine::{Message, Role};
use crate::front::{GivenMessages, PlacedImage};

/// Stands between the texts of two messages, so that their words stay apart.
const BETWEEN: char = '\n';

/// Adds a message and its images; a message of the same role as the last one continues that.
///
/// # Errors
/// A text, if the conversation then has too many images.
pub(super) fn push(
    given: &mut GivenMessages,
    message: Message,
    mut images: Vec<PlacedImage>,
) -> Result<(), String> {
    let continues = |last: &mut Message| {
        last.role == message.role && matches!(message.role, Role::User | Role::Assistant)
    };
    let Some(mut turn) = given.messages.pop_if(continues) else {
        return given.push(message, images);
    };
    let begins = append(&mut turn.content, &message.content);
    append(&mut turn.reasoning, &message.reasoning);
    turn.calls.extend(message.calls);
    for image in &mut images {
        image.message = given.messages.len();
        image.at += begins;
    }
    given.push(turn, images)
}

/// Appends a text; returns where it begins.
fn append(text: &mut String, more: &str) -> usize {
    if !text.is_empty() && !more.is_empty() {
        text.push(BETWEEN);
    }
    let begins = text.len();
    text.push_str(more);
    begins
}
