//! What an event is, and how the table of them is written.

/// One row of the table.
#[derive(Debug)]
pub struct Event {
    /// Of the function that reports it.
    pub name: &'static str,
    pub level: tracing::Level,
    /// 128 bits in hexadecimal; never changes, and never means anything else.
    pub message_id: &'static str,
    /// Names of its fields; the journal has them in capitals.
    pub fields: &'static [&'static str],
}

/// Makes of each row an entry of `EVENTS` and a function that reports it:
/// `LEVEL name(arguments) "message id" "message with {arguments}" { field = expression, ... }`.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $level:ident $name:ident($($argument:ident: $type:ty),*) $id:literal $message:literal
        { $($field:ident = $value:expr),* $(,)? }
    )*) => {
        /// Every event that the daemon reports.
        pub const EVENTS: &[Event] = &[$(Event {
            name: stringify!($name),
            level: tracing::Level::$level,
            message_id: $id,
            fields: &[$(stringify!($field)),*],
        }),*];

        $(
            $(#[$doc])*
            pub fn $name($($argument: $type),*) {
                tracing::event!(
                    target: super::TARGET,
                    tracing::Level::$level,
                    message_id = $id,
                    $($field = %$value,)*
                    $message
                );
            }
        )*
    };
}

pub(super) use events;
