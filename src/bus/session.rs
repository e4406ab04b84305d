//! `org.ganglion.Llm1.Session`: a conversation that the daemon remembers, for its owner alone.
//!
//! `config/interfaces/org.ganglion.Llm1.Session.xml` describes each member.

// zbus hands headers over by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, OwnedFd, OwnedObjectPath, interface};

use super::accounts::Load;
use super::argument::Text;
use super::delivery::{Call, Replied};
use super::error::Error;
use super::messages_argument::{self, Messages};
use super::options_argument::OptionsArgument;
use super::owner::{Caller, ObjectOwner};
use super::proxy::Info;
use super::registry::ObjectKind;
use super::shared::Shared;
use super::{bus_statistics, objects, options};
use crate::engine::{Lease, Message, Priority, Refusal, Said, SessionStatus};
use crate::front::{Config, SessionDefaults};

/// Answers with more bytes wait until the caller has read everything else: dbus-daemon reads 2 KiB in each turn of its loop,
/// and other answers wait behind.
pub(super) const LONG: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    owner: ObjectOwner,
    lease: Lease,
    defaults: SessionDefaults,
}

/// A session that a connection holds, before it has an object: dropping this releases the session.
#[derive(Debug)]
pub(super) struct Claim {
    shared: Arc<Shared>,
    owner: ObjectOwner,
    lease: Lease,
    has_object: bool,
}

impl Claim {
    pub(super) fn new(shared: &Arc<Shared>, owner: ObjectOwner, lease: Lease) -> Self {
        Self {
            shared: shared.clone(),
            owner,
            lease,
            has_object: false,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.has_object {
            let holder = self.owner.caller.connection_name();
            self.shared.engine.release_session(self.lease, &holder);
        }
    }
}

impl Session {
    /// Returns the path of the object of a lease; each lease of a session has its own.
    pub(super) fn path(lease: Lease) -> OwnedObjectPath {
        objects::path(ObjectKind::Session, lease.number())
    }

    /// Removes the object of a lease, if there is one.
    pub(super) async fn remove(connection: &Connection, lease: Lease) {
        let server = connection.object_server();
        let _ = server.remove::<Self, _>(Self::path(lease)).await;
    }

    /// Registers the object of a session.
    pub(super) async fn serve(
        connection: &Connection,
        mut claim: Claim,
        defaults: SessionDefaults,
    ) -> Result<OwnedObjectPath, Error> {
        let Claim {
            shared,
            owner,
            lease,
            ..
        } = &claim;
        let path = Self::path(*lease);
        let session = Self {
            shared: shared.clone(),
            owner: owner.clone(),
            lease: *lease,
            defaults,
        };
        objects::put(connection, &path, session).await?;
        if shared.registry.add_session(owner, *lease) {
            claim.has_object = true;
        } else {
            // The bus is lost, and its caller with it.
            Self::remove(connection, *lease).await;
        }
        Ok(path)
    }

    /// Releases a session of a caller, and removes the object.
    pub(super) async fn release(
        shared: &Shared,
        connection: &Connection,
        caller: &Caller,
        lease: Lease,
    ) {
        shared
            .engine
            .release_session(lease, &caller.connection_name());
        Self::remove(connection, lease).await;
    }

    /// Returns the configuration with the defaults of the session.
    async fn config(&self) -> Result<Config, Error> {
        let config = self.shared.front_config().await;
        Ok(self.defaults.over(&config)?)
    }

    async fn admit_priority(&self, priority: Priority) -> Result<(), Error> {
        let client = &self.owner.client;
        self.shared.admit_priority(client, priority).await
    }

    fn call<'a>(&'a self, connection: &'a Connection, header: &'a Header<'a>) -> Call<'a> {
        Call {
            shared: &self.shared,
            connection,
            header,
            owner: self.owner.clone(),
        }
    }

    /// Returns the messages, when there is room for them on the bus.
    async fn said(&self, connection: &Connection, header: &Header<'_>) -> Result<Vec<Said>, Error> {
        self.owner.admit(header)?;
        let Shared {
            engine, accounts, ..
        } = &*self.shared;
        let id = self.lease.session();
        let read = || engine.history(id).ok_or(Refusal::SessionClosed);
        let sizes = |said: Vec<Said>| said.iter().map(|said| said.message.bytes()).sum();
        let need = Load {
            bytes: sizes(read()?),
            descriptors: 0,
        };
        // The messages may be long: they are copied only when the caller has read earlier answers.
        accounts.room(&self.owner, header, need).await?;
        if need.bytes > LONG {
            bus_statistics::nothing_held(connection, &self.owner.caller).await?;
        }
        Ok(read()?)
    }

    fn status(&self, header: Option<&Header<'_>>) -> Result<SessionStatus, Error> {
        self.owner.admit_reader(header)?;
        let status = self.shared.engine.session(self.lease.session());
        status.ok_or_else(|| Refusal::SessionClosed.into())
    }
}

/// A conversation that the daemon remembers, for the connection that opened it. The XML file of the interface describes each member.
#[interface(name = "org.ganglion.Llm1.Session", introspection_docs = false)]
impl Session {
    /// Queues one turn of the user, answered through a pipe.
    #[zbus(out_args("request", "stream"))]
    async fn send(
        &self,
        text: Text,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        self.owner.admit(&header)?;
        let text = text.read()?;
        let (options, kind) = options::streamed(options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.send(self.lease, text, options);
        self.call(connection, &header).stream(kind, queue).await
    }

    /// Queues one turn of the user; Request.Read returns the text.
    #[zbus(out_args("request"))]
    async fn submit(
        &self,
        text: Text,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        self.owner.admit(&header)?;
        let text = text.read()?;
        let (options, signals) = options::submitted(options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.send(self.lease, text, options);
        self.call(connection, &header).submit(signals, queue).await
    }

    /// Queues a turn of any messages, answered through a pipe.
    #[zbus(out_args("request", "stream"))]
    async fn reply(
        &self,
        messages: Messages,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let (options, kind) = options::streamed(options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let client = &self.owner.client;
        let front = &self.shared.front;
        let queue = front.reply(client, self.lease, messages, options);
        self.call(connection, &header).stream(kind, queue).await
    }

    /// Queues a turn of any messages; Request.Read returns the text.
    #[zbus(out_args("request"))]
    async fn submit_reply(
        &self,
        messages: Messages,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let (options, signals) = options::submitted(options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let client = &self.owner.client;
        let front = &self.shared.front;
        let queue = front.reply(client, self.lease, messages, options);
        self.call(connection, &header).submit(signals, queue).await
    }

    /// Adds messages without an answer.
    async fn append(
        &self,
        messages: Messages,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let client = &self.owner.client;
        let appended = self.shared.front.append(client, self.lease, messages).await;
        appended.map_err(|refusal| self.shared.refused(client, refusal))
    }

    /// Prefills the beginning of a likely next turn.
    async fn prewarm(&self, text: Text, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let text = text.read()?;
        let (options, _) = options::streamed(OptionsArgument::default(), &self.config().await?)?;
        let warmed = self.shared.engine.prewarm(self.lease, text, options).await;
        warmed.map_err(|refusal| self.shared.refused(&self.owner.client, refusal))
    }

    /// Opens another session with the same past.
    #[zbus(out_args("session"))]
    async fn branch(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Error> {
        self.owner.admit(&header)?;
        let (owner, defaults) = (self.owner.clone(), self.defaults.clone());
        let engine = &self.shared.engine;
        let branched = engine.branch(self.lease, owner.client.clone()).await;
        let id = branched.map_err(|refusal| self.shared.refused(&owner.client, refusal))?;
        let lease = engine.lease(id).ok_or(Refusal::SessionClosed)?;
        let claim = Claim::new(&self.shared, owner, lease);
        Self::serve(connection, claim, defaults).await
    }

    /// Removes the last turns.
    async fn rewind(&self, turns: u32, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.rewind(self.lease, turns).await?)
    }

    /// Removes all turns.
    async fn clear(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.clear_session(self.lease).await?)
    }

    /// Returns the role and the text of each message.
    #[zbus(out_args("messages"))]
    async fn history(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<(String, String)>, Error> {
        let named = |Said { message, .. }| {
            let Message { role, content, .. } = message;
            (role.name().to_owned(), content)
        };
        let said = self.said(connection, &header).await?;
        Ok(said.into_iter().map(named).collect())
    }

    /// Returns all messages, with all their fields.
    #[zbus(out_args("messages"))]
    async fn messages(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<(String, Info)>, Error> {
        let said = self.said(connection, &header).await?;
        Ok(said.into_iter().map(messages_argument::encode).collect())
    }

    /// Closes the session and cancels its request.
    async fn close(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let caller = &self.owner.caller;
        self.shared.registry.remove_session(caller, self.lease);
        Self::release(&self.shared, connection, caller, self.lease).await;
        Ok(())
    }

    /// Finished turns.
    #[zbus(property(emits_changed_signal = "false"))]
    fn turns(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.status(header.as_ref())?.turns)
    }

    /// Tokens of the conversation.
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_used(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.status(header.as_ref())?.context_used)
    }

    /// The most tokens of a conversation; 0 while the model loads.
    #[zbus(property(emits_changed_signal = "false"))]
    fn context_size(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        self.status(header.as_ref())?;
        Ok(self.shared.engine.status().borrow().model.context)
    }

    /// Whether a turn is queued or running.
    #[zbus(property(emits_changed_signal = "false"))]
    fn busy(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<bool, Error> {
        Ok(self.status(header.as_ref())?.busy)
    }
}
