//! Merges thoughts or tool calls into the content of a message, for chat templates that do not support them.
//!
//! They are written as the model itself writes them.

use std::borrow::Cow;

use crate::model::Message;
use crate::model::chat::thoughts_name;
use crate::tools::Writing;

/// The name of a message's calls in templates that support them.
const CALLS: &str = "tool_calls";

/// Returns the messages as a template supports them. Merging calls needs the `writing` of the model.
pub(crate) fn messages<'a>(
    messages: &'a [Message],
    template: &str,
    writing: Option<&Writing>,
) -> Cow<'a, [Message]> {
    let thinks = thoughts_name(template).is_none();
    let calls = !template.contains(CALLS) && writing.is_some();
    let is_it = |message: &Message| {
        thinks && !message.reasoning.is_empty() || calls && !message.calls.is_empty()
    };
    if !messages.iter().any(is_it) {
        return messages.into();
    }
    let flattened = messages.iter().map(|message| {
        if is_it(message) {
            flat(message.clone(), (thinks, calls), writing)
        } else {
            message.clone()
        }
    });
    flattened.collect()
}

fn flat(mut message: Message, (thinks, calls): (bool, bool), writing: Option<&Writing>) -> Message {
    let all = (thinks || message.reasoning.is_empty()) && (calls || message.calls.is_empty());
    if let Some(spelled) = message.spelled.take().filter(|_| all) {
        message.content = spelled;
        message.reasoning.clear();
        message.calls.clear();
        return message;
    }
    if let Some(writing) = writing.filter(|_| calls && !message.calls.is_empty()) {
        let made = std::mem::take(&mut message.calls);
        let between = if message.content.is_empty() { "" } else { "\n" };
        message.content += between;
        message.content += &writing.format().write(&made);
    }
    if thinks && !message.reasoning.is_empty() {
        let thoughts = std::mem::take(&mut message.reasoning);
        message.content = format!("<think>\n{thoughts}\n</think>\n\n{}", message.content);
    }
    message
}
