//! The calls that zbus receives, and those that are refused before.

use std::fmt;

use zbus::Message;

/// A call that was refused before its body was kept.
#[derive(Debug)]
pub(in crate::bus) struct Refused {
    /// The call without its body.
    pub(in crate::bus) call: Message,
    pub(in crate::bus) why: String,
}

/// Decides which calls zbus receives.
pub(in crate::bus) trait CallFilter: fmt::Debug + Send + Sync {
    /// Whether zbus receives a call. The filter answers every other call.
    fn passes(&self, call: &Message) -> bool;

    /// Returns the interface of a call that names none, if exactly one interface of its object has the method.
    fn interface(&self, path: &str, member: &str) -> Option<&'static str>;
}
