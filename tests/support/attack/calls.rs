//! The daemon's methods as messages.

use ganglion::bus::{NAME, PATH};

use super::super::wire::{BUS, BUS_PATH, Message, Value};

pub(crate) const MANAGER: &str = "org.ganglion.Llm1.Manager";
const SESSION: &str = "org.ganglion.Llm1.Session";
const REQUEST: &str = "org.ganglion.Llm1.Request";

pub(crate) fn manager(member: &str) -> Message {
    Message::call(NAME, PATH, MANAGER, member)
}

pub(crate) fn session(path: &str, member: &str) -> Message {
    Message::call(NAME, path, SESSION, member)
}

pub(crate) fn ping() -> Message {
    Message::call(NAME, PATH, "org.freedesktop.DBus.Peer", "Ping")
}

pub(crate) fn introspect() -> Message {
    Message::call(
        NAME,
        PATH,
        "org.freedesktop.DBus.Introspectable",
        "Introspect",
    )
}

pub(crate) fn get_all() -> Message {
    Message::call(NAME, PATH, "org.freedesktop.DBus.Properties", "GetAll").with(MANAGER)
}

pub(crate) fn get(property: &str) -> Message {
    Message::call(NAME, PATH, "org.freedesktop.DBus.Properties", "Get")
        .with(MANAGER)
        .with(property)
}

/// The `messages` argument of Generate with one user message.
pub(crate) fn question(text: &str) -> Value {
    let message = Value::Struct(vec![
        "user".into(),
        Value::fields([("content", text.into())]),
    ]);
    Value::Array("(sa{sv})".to_owned(), vec![message])
}

pub(crate) fn generate<const N: usize>(text: &str, options: [(&str, Value); N]) -> Message {
    manager("Generate")
        .with(question(text))
        .with(Value::fields(options))
}

pub(crate) fn complete<const N: usize>(text: &str, options: [(&str, Value); N]) -> Message {
    manager("Complete").with(text).with(Value::fields(options))
}

pub(crate) fn open_session<const N: usize>(options: [(&str, Value); N]) -> Message {
    manager("OpenSession").with(Value::fields(options))
}

pub(crate) fn send<const N: usize>(path: &str, text: &str, options: [(&str, Value); N]) -> Message {
    session(path, "Send")
        .with(text)
        .with(Value::fields(options))
}

pub(crate) fn cancel(path: &str) -> Message {
    Message::call(NAME, path, REQUEST, "Cancel")
}

/// The bus itself gives a long answer, without the daemon.
pub(crate) fn introspect_bus() -> Message {
    Message::call(
        BUS,
        BUS_PATH,
        "org.freedesktop.DBus.Introspectable",
        "Introspect",
    )
}
