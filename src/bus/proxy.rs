//! The interfaces for clients. Errors are returned as [`Error`], by name.

use std::collections::HashMap;

use zbus::{OwnedFd, OwnedObjectPath, OwnedVariant, Variant, proxy};

use super::error::Error;

/// A dictionary that a client sends: options, or the fields of a message.
pub type Fields<'a> = HashMap<&'a str, Variant<'a>>;
/// A dictionary that a client receives.
pub type Info = HashMap<String, OwnedVariant>;

#[proxy(
    interface = "org.ganglion.Llm1.Manager",
    default_service = "org.ganglion.Llm1",
    default_path = "/org/ganglion/Llm1"
)]
pub trait Manager {
    fn generate(
        &self,
        messages: &[(&str, Fields<'_>)],
        options: Fields<'_>,
    ) -> Result<(OwnedObjectPath, OwnedFd), Error>;
    fn submit(
        &self,
        messages: &[(&str, Fields<'_>)],
        options: Fields<'_>,
    ) -> Result<OwnedObjectPath, Error>;
    fn complete(&self, prompt: &str, options: Fields<'_>) -> Result<(String, Info), Error>;
    fn open_session(&self, options: Fields<'_>) -> Result<OwnedObjectPath, Error>;
    fn list_sessions(&self) -> Result<HashMap<String, Info>, Error>;
    fn read_session(&self, name: &str) -> Result<Vec<(String, Info)>, Error>;
    fn delete_session(&self, name: &str) -> Result<(), Error>;
    fn hold(&self, reason: &str) -> Result<OwnedFd, Error>;
    fn hold_all(&self, reason: &str) -> Result<OwnedFd, Error>;
    fn reload(&self) -> Result<(), Error>;
    fn release(&self) -> Result<(), Error>;

    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> Result<String, Error>;
    #[zbus(property)]
    fn state(&self) -> Result<String, Error>;
    #[zbus(property)]
    fn state_detail(&self) -> Result<String, Error>;
    #[zbus(property)]
    fn model(&self) -> Result<Info, Error>;
    #[zbus(property)]
    fn backend(&self) -> Result<String, Error>;
    #[zbus(property)]
    fn queue_length(&self) -> Result<u32, Error>;
    #[zbus(property)]
    fn sessions(&self) -> Result<u32, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn holds(&self) -> Result<Vec<Info>, Error>;
    #[zbus(property)]
    fn features(&self) -> Result<Vec<String>, Error>;
    #[zbus(property)]
    fn memory(&self) -> Result<Info, Error>;
}

#[proxy(
    interface = "org.ganglion.Llm1.Session",
    default_service = "org.ganglion.Llm1",
    assume_defaults = false
)]
pub trait Session {
    fn send(&self, text: &str, options: Fields<'_>) -> Result<(OwnedObjectPath, OwnedFd), Error>;
    fn submit(&self, text: &str, options: Fields<'_>) -> Result<OwnedObjectPath, Error>;
    fn reply(
        &self,
        messages: &[(&str, Fields<'_>)],
        options: Fields<'_>,
    ) -> Result<(OwnedObjectPath, OwnedFd), Error>;
    fn submit_reply(
        &self,
        messages: &[(&str, Fields<'_>)],
        options: Fields<'_>,
    ) -> Result<OwnedObjectPath, Error>;
    fn append(&self, messages: &[(&str, Fields<'_>)]) -> Result<(), Error>;
    fn prewarm(&self, text: &str) -> Result<(), Error>;
    fn branch(&self) -> Result<OwnedObjectPath, Error>;
    fn rewind(&self, turns: u32) -> Result<(), Error>;
    fn clear(&self) -> Result<(), Error>;
    fn close(&self) -> Result<(), Error>;
    fn history(&self) -> Result<Vec<(String, String)>, Error>;
    fn messages(&self) -> Result<Vec<(String, Info)>, Error>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn turns(&self) -> Result<u32, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_used(&self) -> Result<u32, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_size(&self) -> Result<u32, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn busy(&self) -> Result<bool, Error>;
}

#[proxy(
    interface = "org.ganglion.Llm1.Request",
    default_service = "org.ganglion.Llm1",
    assume_defaults = false
)]
pub trait Request {
    fn read(&self, offset: u64) -> Result<(String, u64, bool), Error>;
    fn cancel(&self) -> Result<(), Error>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn state(&self) -> Result<String, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn result(&self) -> Result<Info, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn reading(&self) -> Result<(u32, u32), Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn queue_position(&self) -> Result<u32, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn estimated_wait(&self) -> Result<f64, Error>;

    #[zbus(signal)]
    fn delta(&self, seq: u64, text: &str) -> Result<(), Error>;
    #[zbus(signal)]
    fn finished(&self, reason: &str, info: Info) -> Result<(), Error>;
}

#[proxy(
    interface = "org.ganglion.Llm1.Diagnostics",
    default_service = "org.ganglion.Llm1",
    default_path = "/org/ganglion/Llm1"
)]
pub trait Diagnostics {
    fn reset_graph(&self) -> Result<(), Error>;
    fn dump_graph(&self) -> Result<OwnedFd, Error>;

    #[zbus(property)]
    fn graph_state(&self) -> Result<String, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn decode_graph(&self) -> Result<Info, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn timing(&self) -> Result<Info, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn work(&self) -> Result<Info, Error>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn device(&self) -> Result<Info, Error>;
}
