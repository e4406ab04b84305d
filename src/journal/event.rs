//! The type of an event, and the macro that defines the table of events.

use std::fmt::Display;

/// A row of the table.
#[derive(Debug)]
pub struct Event {
    /// The name of the function that reports it.
    pub name: &'static str,
    pub level: tracing::Level,
    /// 128 bits in hexadecimal. An id never changes and is never used for another event.
    pub message_id: &'static str,
    /// The names of its fields, which the journal has in capitals. `FIELDS` describes them.
    pub fields: &'static [&'static str],
    /// Whether callers cause it, so that each user's rate is limited.
    pub by_caller: bool,
}

/// Makes of each row an entry of `EVENTS` and a function that reports it: `LEVEL name(arguments) "message id" "message
/// with {arguments}" { field = expression, ... }`.
///
/// An event that a caller causes has `by (user id)` behind its arguments, or `by (ANY)` if the user is unknown. It is
/// reported within that user's rate and counted beyond it. An event with a field client_uid must have this.
///
/// An event below "info" costs nothing unless `log.level` enables it. The caller formats the message and its fields,
/// and the journal's thread sends them, so reporting never waits. A field whose expression is an empty text is left
/// out.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $level:ident $name:ident($($argument:ident: $type:ty),* $(,)?) $(by ($cause:expr))? $id:literal $message:literal
        { $($field:ident = $value:expr),* $(,)? }
    )*) => {
        /// Every event that the daemon reports.
        pub const EVENTS: &[Event] = &[$(Event {
            name: stringify!($name),
            level: tracing::Level::$level,
            message_id: $id,
            fields: &[$(stringify!($field)),*],
            by_caller: !(&[$(stringify!($cause))?] as &[&str]).is_empty(),
        }),*];

        $(
            $(#[$doc])*
            #[allow(clippy::let_unit_value, clippy::ignored_unit_patterns, clippy::useless_format, clippy::useless_conversion)]
            pub fn $name($($argument: $type),*) {
                if !super::queue::is_wanted(tracing::Level::$level) {
                    return;
                }
                $(if !super::queue::admits(
                    $cause.into(),
                    stringify!($name),
                    tracing::Level::$level,
                ) {
                    return;
                })?
                let message = format!($message);
                let ($($field,)*) = ($(written($value),)*);
                super::queue::report(Box::new(move || tracing::event!(
                    target: super::TARGET,
                    tracing::Level::$level,
                    message_id = $id,
                    $($field = $field.as_deref(),)*
                    "{message}"
                )));
            }
        )*
    };
}

pub(super) use events;

/// Formats a field's value; `None` if it is empty.
pub(super) fn written(value: impl Display) -> Option<String> {
    Some(value.to_string()).filter(|text| !text.is_empty())
}

/// Formats a value; empty if there is none, so that the field is left out.
pub(super) fn or_nothing(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
