//! What an event is, and how the table of them is written.

use std::fmt::Display;

/// One row of the table.
#[derive(Debug)]
pub struct Event {
    /// The function that reports it is called so.
    pub name: &'static str,
    pub level: tracing::Level,
    /// 128 bits in hexadecimal; never changes, and never means anything else.
    pub message_id: &'static str,
    /// Names of its fields; the journal has them in capitals. `FIELDS` says what they mean.
    pub fields: &'static [&'static str],
    /// Whether callers cause it: of these each user has so many a minute.
    pub by_caller: bool,
}

/// Makes of each row an entry of `EVENTS` and a function that reports it:
/// `LEVEL name(arguments) "message id" "message with {arguments}" { field = expression, ... }`.
///
/// What a caller causes by what it does says so behind its arguments, `by (user id)`, or `by (ANY)` where nothing tells
/// which caller it was: it is then told within that user's rate, and counted beyond. An event with a field client_uid
/// must say so.
///
/// What is less severe than "info" costs nothing unless `log.level` asks for it.
/// Everything is written out where it happens, and told by the journal's own thread: reporting never waits. A field
/// whose expression is an empty text is left out.
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

/// A field's value, if it has one.
pub(super) fn written(value: impl Display) -> Option<String> {
    Some(value.to_string()).filter(|text| !text.is_empty())
}

/// An empty text where there is nothing: its field is left out.
pub(super) fn or_nothing(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
