//! `org.ganglion.Llm1.Session`: a conversation that the daemon remembers. For its owner alone.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]
// zbus hands headers over by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, OwnedFd, OwnedObjectPath, interface};

use super::accounts::Load;
use super::argument::Text;
use super::authorize::{Caller, Owner};
use super::delivery::{Call, Replied};
use super::entries::Entries;
use super::messages::Messages;
use super::options::Beginnings;
use super::proxy::Info;
use super::registry::Kind;
use super::shared::Shared;
use super::{BusConfig, Error, messages, objects, options, statistics};
use crate::engine::{Lease, Message, Priority, Refusal, Said, SessionStatus};

/// Bytes of an answer that only one who reads may have: dbus-daemon takes 2 KiB in each turn of its loop, and the answers
/// of all others come behind.
pub(super) const LONG: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    owner: Owner,
    lease: Lease,
    beginnings: Beginnings,
}

/// A session in the hands of a connection that has no object of it yet: dropping this lets go of the session.
#[derive(Debug)]
pub(super) struct Claim {
    shared: Arc<Shared>,
    owner: Owner,
    lease: Lease,
    is_kept: bool,
}

impl Claim {
    pub(super) fn new(shared: &Arc<Shared>, owner: Owner, lease: Lease) -> Self {
        Self {
            shared: shared.clone(),
            owner,
            lease,
            is_kept: false,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_kept {
            let holder = self.owner.caller.name();
            self.shared.engine.release_session(self.lease, holder);
        }
    }
}

impl Session {
    /// The path of its object. No other lease of the session has the same.
    pub(super) fn path(lease: Lease) -> OwnedObjectPath {
        objects::path(Kind::Session, lease.number())
    }

    /// Removes the object of a lease, if there is one.
    pub(super) async fn remove(connection: &Connection, lease: Lease) {
        let server = connection.object_server();
        let _ = server.remove::<Self, _>(Self::path(lease)).await;
    }

    /// Makes the object of a session.
    pub(super) async fn serve(
        connection: &Connection,
        mut claim: Claim,
        beginnings: Beginnings,
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
            beginnings,
        };
        objects::put(connection, &path, session).await?;
        if shared.registry.add_session(owner, *lease) {
            claim.is_kept = true;
        } else {
            // Its bus is lost, and its caller with it.
            Self::remove(connection, *lease).await;
        }
        Ok(path)
    }

    /// Ends a caller's hold of a session, and removes the object.
    pub(super) async fn let_go(
        shared: &Shared,
        connection: &Connection,
        caller: &Caller,
        lease: Lease,
    ) {
        shared.engine.release_session(lease, caller.name());
        Self::remove(connection, lease).await;
    }

    /// What its turns start from.
    async fn config(&self) -> Result<BusConfig, Error> {
        options::turns(&self.beginnings, &*self.shared.config().await)
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

    /// The messages for one who may read them, when there is room for them on the bus.
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
        // They may be long: nothing of them is kept while the caller has not taken what it asked for before.
        accounts.room(&self.owner, header, need).await?;
        if need.bytes > LONG {
            statistics::nothing_held(connection, &self.owner.caller).await?;
        }
        Ok(read()?)
    }

    fn read(&self, header: Option<&Header<'_>>) -> Result<SessionStatus, Error> {
        self.owner.admit_reader(header)?;
        let status = self.shared.engine.session(self.lease.session());
        status.ok_or_else(|| Refusal::SessionClosed.into())
    }
}

/// A conversation that the daemon remembers. Only the connection that opened it may use it, and it ends
/// when that connection leaves the bus, unless it has a name: then its user opens it again.
#[interface(name = "org.ganglion.Llm1.Session")]
impl Session {
    /// Queues one turn of the user; the options and the stream are those of Generate. A session answers one turn at a
    /// time: Error.Busy until the request before has finished.
    ///
    /// A turn that is cancelled, by whatever way, or ended by its deadline, keeps what was made of its answer, also what was not read: Messages
    /// marks it as partial, the next turn goes on from there, and Rewind takes it back. If nothing was made yet, or if it
    /// failed, the session is as before the turn; a call of a tool that is not whole is nothing.
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
        let (options, kind) = options::streamed(&options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.send(self.lease, text, options);
        self.call(connection, &header).stream(kind, queue).await
    }

    /// As Send, without a pipe, for callers that take no file descriptors: Request.Read has the text, and with
    /// signals=true Request.Delta too. Options are those of Manager.Submit.
    #[zbus(out_args("request"))]
    async fn submit(
        &self,
        text: Text,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        self.owner.admit(&header)?;
        let text = messages::text(text)?;
        let (options, signals) = options::submitted(&options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.send(self.lease, text, options);
        self.call(connection, &header).submit(signals, queue).await
    }

    /// Queues a turn of whatever messages, as Generate takes them: what tools said, each with the id of the call that it
    /// answers, say, or a user's text. All else is as with Send.
    #[zbus(out_args("request", "stream"))]
    async fn reply(
        &self,
        messages: Messages,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let (options, kind) = options::streamed(&options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.reply(self.lease, messages, options);
        self.call(connection, &header).stream(kind, queue).await
    }

    /// As Reply, without a pipe, for callers that take no file descriptors; options are those of Submit.
    #[zbus(out_args("request"))]
    async fn submit_reply(
        &self,
        messages: Messages,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let (options, signals) = options::submitted(&options, &self.config().await?)?;
        self.admit_priority(options.priority).await?;
        let queue = self.shared.engine.reply(self.lease, messages, options);
        self.call(connection, &header).submit(signals, queue).await
    }

    /// Adds messages without an answer, as Generate takes them but none by "assistant": what a tool or a sensor says, say.
    /// The next turn answers to them too, and they are taken back with it. Error.Busy while a turn waits or is being
    /// answered, Error.NotReady while the model loads.
    async fn append(
        &self,
        messages: Messages,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let messages = messages.read()?;
        let client = &self.owner.client;
        let appended = self.shared.engine.append(self.lease, messages).await;
        appended.map_err(|refusal| self.shared.refused(client, refusal))
    }

    /// Reads ahead what the next turn has in common with one of this text: a Send whose text begins with it pays only for the
    /// rest. Of priority "background"; answers when it is queued, and the session is as before. Whatever is called next comes
    /// before it. Error.Busy while a turn waits or is being answered, Error.NotReady while the model loads.
    async fn prewarm(&self, text: Text, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let text = messages::text(text)?;
        let (options, _) = options::streamed(&Entries::default(), &self.config().await?)?;
        let warmed = self.shared.engine.prewarm(self.lease, text, options).await;
        warmed.map_err(|refusal| self.shared.refused(&self.owner.client, refusal))
    }

    /// Opens another session of this connection that has the same past, and the same options for its turns, and goes its own
    /// way. What the cache holds of the past is not read again. It has no name, and ends as such sessions do. Error.Busy
    /// while a turn of this one waits or is being answered.
    #[zbus(out_args("session"))]
    async fn branch(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Error> {
        self.owner.admit(&header)?;
        let (owner, beginnings) = (self.owner.clone(), self.beginnings.clone());
        let engine = &self.shared.engine;
        let branched = engine.branch(self.lease, owner.client.clone()).await;
        let id = branched.map_err(|refusal| self.shared.refused(&owner.client, refusal))?;
        let lease = engine.lease(id).ok_or(Refusal::SessionClosed)?;
        Self::serve(
            connection,
            Claim::new(&self.shared, owner, lease),
            beginnings,
        )
        .await
    }

    /// Takes back the last turns, with their answers. Error.Busy while a turn waits or is being answered,
    /// Error.InvalidOption if there are fewer turns. What was appended since the last turn is taken back first: Rewind(0)
    /// takes back that alone. Of a session that is kept, returns when that is on the disk.
    async fn rewind(&self, turns: u32, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.rewind(self.lease, turns).await?)
    }

    /// Takes back all turns; the system message stays. Error.Busy while a turn waits or is being answered.
    async fn clear(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.clear_session(self.lease).await?)
    }

    /// The messages so far, oldest first: role and text. Thoughts and calls of tools are not in it: Messages has all.
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

    /// The same as Generate takes them: role, and content (s); an answer may have reasoning (s) and tool_calls (s), what a
    /// tool said tool_call_id (s); an answer that was cancelled, or ended by its deadline, or is
    /// incomplete as Request.Finished tells it, has partial=true, too.
    #[zbus(out_args("messages"))]
    async fn messages(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<(String, Info)>, Error> {
        let said = self.said(connection, &header).await?;
        Ok(said.into_iter().map(messages::written).collect())
    }

    /// Ends the session, and its request with it, whether that waits or runs. The object goes away: who calls it then
    /// gets org.freedesktop.DBus.Error.UnknownObject. One with a name is only let go: OpenSession goes on with it, and
    /// Manager.DeleteSession ends it.
    async fn close(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let caller = &self.owner.caller;
        self.shared.registry.remove_session(caller, self.lease);
        Self::let_go(&self.shared, connection, caller, self.lease).await;
        Ok(())
    }

    /// Finished turns: each is a message of the user, or what was given to Reply, and one answer. Rewind and Clear take turns
    /// back.
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
