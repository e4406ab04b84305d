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
use super::shared::Shared;
use super::{BusConfig, Error, PATH, messages, options, statistics};
use crate::engine::{Message, Priority, Refusal, Said, SessionId, SessionStatus};

/// Bytes of an answer that only one who reads may have: dbus-daemon takes 2 KiB in each turn of its loop, and the answers
/// of all others come behind.
pub(super) const LONG: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    owner: Owner,
    id: SessionId,
    beginnings: Beginnings,
}

impl Session {
    fn new(shared: Arc<Shared>, owner: Owner, (id, beginnings): (SessionId, Beginnings)) -> Self {
        Self {
            shared,
            owner,
            id,
            beginnings,
        }
    }

    pub(super) fn path(SessionId(id): SessionId) -> OwnedObjectPath {
        // A constant and a number: always valid; the root is harmless.
        OwnedObjectPath::try_from(format!("{PATH}/session/{id}")).unwrap_or_default()
    }

    /// Takes its object away; it may have been taken away before.
    pub(super) async fn remove(connection: &Connection, id: SessionId) {
        let server = connection.object_server();
        let _ = server.remove::<Self, _>(Self::path(id)).await;
    }

    /// Makes the object of a session.
    pub(super) async fn serve(
        shared: &Arc<Shared>,
        connection: &Connection,
        owner: Owner,
        (id, beginnings): (SessionId, Beginnings),
    ) -> Result<OwnedObjectPath, Error> {
        let path = Self::path(id);
        let session = Self::new(shared.clone(), owner.clone(), (id, beginnings));
        if let Err(error) = connection.object_server().at(&path, session).await {
            shared.engine.let_go(id, owner.caller.name());
            return Err(error.into());
        }
        if !shared.registry.add_session(&owner, id) {
            // Its bus is lost, and it with that, but nobody has let go of what was not its own yet.
            shared.engine.let_go(id, owner.caller.name());
        }
        Ok(path)
    }

    /// A session is its caller's no more, and its object goes, unless another connection has taken it.
    pub(super) async fn let_go(
        shared: &Shared,
        connection: &Connection,
        caller: &Caller,
        id: SessionId,
    ) {
        // Whoever opens it next makes its object when this one is gone.
        let _naming = shared.engine.naming(id).await;
        if shared.engine.let_go(id, caller.name()) {
            Self::remove(connection, id).await;
        }
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
        let read = || engine.history(self.id).ok_or(Refusal::SessionClosed);
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
        let status = self.shared.engine.session(self.id);
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
        let queue = self.shared.engine.send(self.id, text, options);
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
        let queue = self.shared.engine.send(self.id, text, options);
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
        let queue = self.shared.engine.reply(self.id, messages, options);
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
        let queue = self.shared.engine.reply(self.id, messages, options);
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
        let appended = self.shared.engine.append(self.id, messages).await;
        appended.map_err(|refusal| self.shared.refused(client, refusal))
    }

    /// Reads ahead what the next turn has in common with one of this text: a Send whose text begins with it pays only for the
    /// rest. Of priority "background"; answers when it is queued, and the session is as before. Whatever is called next comes
    /// before it. Error.Busy while a turn waits or is being answered, Error.NotReady while the model loads.
    async fn prewarm(&self, text: Text, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        let text = messages::text(text)?;
        let (options, _) = options::streamed(&Entries::default(), &self.config().await?)?;
        let warmed = self.shared.engine.prewarm(self.id, text, options).await;
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
        let branched = self.shared.engine.branch(self.id, owner.client.clone());
        let branched = branched.await;
        let id = branched.map_err(|refusal| self.shared.refused(&owner.client, refusal))?;
        Self::serve(&self.shared, connection, owner, (id, beginnings)).await
    }

    /// Takes back the last turns, with their answers. Error.Busy while a turn waits or is being answered,
    /// Error.InvalidOption if there are fewer turns. What was appended since the last turn is taken back first: Rewind(0)
    /// takes back that alone. Of a session that is kept, returns when that is on the disk.
    async fn rewind(&self, turns: u32, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.rewind(self.id, turns).await?)
    }

    /// Takes back all turns; the system message stays. Error.Busy while a turn waits or is being answered.
    async fn clear(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        self.owner.admit(&header)?;
        Ok(self.shared.engine.clear_session(self.id).await?)
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
        self.shared.registry.remove_session(caller, self.id);
        Self::let_go(&self.shared, connection, caller, self.id).await;
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
