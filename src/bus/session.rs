//! `org.ganglion.Llm1.Session`: a conversation that the daemon remembers. For its owner alone.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]
// zbus hands headers over by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, OwnedFd, interface};

use super::accounts::Load;
use super::argument::{Entries, Text};
use super::authorize::Owner;
use super::delivery::{self, Replied};
use super::shared::{Shared, remove_session};
use super::{Error, messages, options, unread};
use crate::engine::{Message, Refusal, SessionId, SessionStatus};

/// Bytes of an answer that only one who reads may have: dbus-daemon takes 2 KiB in each turn of its loop, and the answers
/// of all others come behind.
const LONG: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    owner: Owner,
    id: SessionId,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, owner: Owner, id: SessionId) -> Self {
        Self { shared, owner, id }
    }

    fn read(&self, header: Option<&Header<'_>>) -> Result<SessionStatus, Error> {
        self.owner.admit_reader(header)?;
        let status = self.shared.engine.session(self.id);
        status.ok_or_else(|| Refusal::SessionClosed.into())
    }
}

/// A conversation that the daemon remembers. Only the connection that opened it may use it, and it ends
/// when that connection leaves the bus.
#[interface(name = "org.ganglion.Llm1.Session")]
impl Session {
    /// Queues one turn of the user; the options are those of Generate. A session answers one turn at a
    /// time: Error.Busy until the request before has finished. A turn that was cancelled or failed
    /// leaves the history as it was.
    #[zbus(out_args("request", "stream"))]
    async fn send(
        &self,
        text: Text,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        self.owner.admit(&header)?;
        let text = messages::text(text)?;
        let (options, kind) = options::streamed(&options, &*self.shared.config().await)?;
        let queue = self.shared.engine.send(self.id, text, options);
        let owner = self.owner.clone();
        delivery::start(&self.shared, connection, &header, owner, kind, queue).await
    }

    /// Takes back the last turns, with their answers. Error.Busy while a turn waits or is being answered,
    /// Error.InvalidOption if there are fewer turns.
    fn rewind(&self, turns: u32, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.rewind(self.id, turns)?)
    }

    /// Takes back all turns; the system message stays. Error.Busy while a turn waits or is being answered.
    fn clear(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.clear_session(self.id)?)
    }

    /// Ends the session, and its request with it, whether that waits or runs. The object goes away.
    async fn close(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        self.owner.admit(&header)?;
        self.shared.engine.close_session(self.id);
        self.shared
            .owned
            .remove_session(&self.owner.caller, self.id);
        remove_session(connection, self.id).await;
        Ok(())
    }

    /// The messages so far, oldest first: role and text.
    #[zbus(out_args("messages"))]
    async fn history(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<(String, String)>, Error> {
        self.owner.admit(&header)?;
        let read = || {
            self.shared
                .engine
                .history(self.id)
                .ok_or(Refusal::SessionClosed)
        };
        let need = Load {
            bytes: read()?.iter().map(|message| message.content.len()).sum(),
            descriptors: 0,
        };
        // It may be long: nothing of it is kept while the caller has not taken what it asked for before.
        self.shared
            .accounts
            .room(&self.owner, &header, need)
            .await?;
        if need.bytes > LONG {
            unread::nothing(connection, &self.owner.caller).await?;
        }
        let named = |message: Message| (message.role.name().to_owned(), message.content);
        Ok(read()?.into_iter().map(named).collect())
    }

    /// Finished turns: each is one message of the user and one answer. Rewind and Clear take turns back.
    #[zbus(property(emits_changed_signal = "false"))]
    fn turns(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.read(header.as_ref())?.turns)
    }

    /// Tokens that the conversation takes.
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_used(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.read(header.as_ref())?.context_used)
    }

    /// Tokens that the conversation may take; 0 while the model loads.
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_size(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        self.read(header.as_ref())?;
        Ok(self.shared.engine.status().borrow().model.context)
    }

    /// Whether a turn waits or is being answered.
    #[zbus(property(emits_changed_signal = "false"))]
    fn busy(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<bool, Error> {
        Ok(self.read(header.as_ref())?.busy)
    }
}
