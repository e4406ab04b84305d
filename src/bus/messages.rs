//! Reads `a(sa{sv})`: the messages of a conversation, each a role and its fields.

use zbus::Variant;

use super::Error;
use super::proxy::Info;
use crate::engine::{Message, Role};

/// Bytes of text in one call. It is held once for each request that waits; no context takes more.
const TEXT_BYTES: usize = 1 << 20;

pub(super) fn read(messages: Vec<(String, Info)>) -> Result<Vec<Message>, Error> {
    let messages: Vec<Message> = messages
        .into_iter()
        .enumerate()
        .map(|(at, (role, fields))| message(at, &role, &fields))
        .collect::<Result<_, _>>()?;
    check_size(messages.iter().map(|message| message.content.len()).sum())?;
    Ok(messages)
}

/// A single message of the user.
pub(super) fn user(text: &str) -> Result<Vec<Message>, Error> {
    check_size(text.len())?;
    Ok(vec![Message {
        role: Role::User,
        content: text.to_owned(),
    }])
}

pub(super) fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > TEXT_BYTES {
        return Err(Error::InvalidMessages(format!(
            "the text has {bytes} bytes; at most {TEXT_BYTES} are taken in one call"
        )));
    }
    Ok(())
}

fn message(at: usize, role: &str, fields: &Info) -> Result<Message, Error> {
    let invalid = |problem: String| Error::InvalidMessages(format!("message {at}: {problem}"));
    let role = Role::from_name(role).ok_or_else(|| {
        let known = Role::ALL.map(Role::name).join(", ");
        let role: String = role.chars().take(60).collect();
        invalid(format!("unknown role {role:?}; known are {known}"))
    })?;
    let mut content = None;
    for (name, value) in fields {
        match (name.as_str(), &**value) {
            ("content", Variant::Str(text)) => content = Some(text.to_string()),
            ("content", value) => {
                let kind = value.value_signature();
                return Err(invalid(format!(
                    "its \"content\" is of type {kind}; it must be a text (s)"
                )));
            }
            _ => {
                let name: String = name.chars().take(60).collect();
                return Err(invalid(format!(
                    "unknown field {name:?}; known is \"content\""
                )));
            }
        }
    }
    let content = content.ok_or_else(|| invalid("it has no \"content\"".to_owned()))?;
    Ok(Message { role, content })
}
