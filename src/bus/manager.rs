//! `org.ganglion.Llm1.Manager`: asks for answers, opens sessions, tells how the daemon is.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]
// An interface needs receivers.
#![allow(clippy::unused_self)]

use std::collections::HashMap;
use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, OwnedFd, OwnedObjectPath, interface};

use super::accounts::Load;
use super::argument::Text;
use super::completion;
use super::delivery::{Call, Replied};
use super::entries::Entries;
use super::messages::Messages;
use super::proxy::Info;
use super::session::LONG;
use super::shared::Shared;
use super::{Error, info, messages, opening, options, statistics};
use crate::engine::{Held, Name, NameError, Status};

/// What clients may rely on; a name stays once it is here.
const FEATURES: [&str; 27] = [
    "complete",
    "complete.messages",
    "deadlines",
    "decode_graph",
    "hold",
    "hold.all",
    "hold.list",
    "priorities",
    "reasoning",
    "rows",
    "sampling.from_model",
    "sessions",
    "sessions.append",
    "sessions.branch",
    "sessions.clear",
    "sessions.context_overflow",
    "sessions.messages",
    "sessions.named",
    "sessions.prewarm",
    "sessions.read",
    "sessions.reply",
    "sessions.rewind",
    "stream.pipe",
    "stream.signals",
    "submit",
    "tools",
    "tools.max_calls",
];

/// What is told of one session, about.
const LISTED: usize = 256;

#[derive(Debug)]
pub(super) struct Manager {
    pub(super) shared: Arc<Shared>,
}

/// The name of a session, as a call gives it.
fn session_name(Text(name): Text) -> Result<Name, Error> {
    let name = name
        .map_err(|_| NameError)
        .and_then(|name| Name::new(&name));
    name.map_err(|error| Error::InvalidOption(error.to_string()))
}

impl Manager {
    fn status<T>(&self, read: impl FnOnce(&Status) -> T) -> T {
        read(&self.shared.engine.status().borrow())
    }
}

/// Asks for answers, opens sessions, tells how the daemon is.
#[interface(name = "org.ganglion.Llm1.Manager", introspection_docs = false)]
impl Manager {
    /// Queues one conversation and answers at once, also while the model loads; nothing of it is kept.
    /// A message is its role ("system", "user", "assistant" or "tool") and its fields: "content" (s); of an assistant also
    /// "reasoning" (s), what it thought, and "tool_calls" (s), a JSON array of its calls as Request.Result has it; of a tool
    /// "tool_call_id" (s), the call that it answers; and "partial" and "dropped" (b), as Session.Messages and ReadSession
    /// report them, which change nothing.
    ///
    /// Options: max_tokens (u), temperature (d), top_k (u), top_p (d), min_p (d),
    /// repetition_penalty (d), seed (t), stop (s or as), thinking (b), thinking_tokens (u), stream (s: "pipe" or "signals"),
    /// priority (s: "realtime", "normal" or "background"), deadline_ms (u), and either one of json_schema (s), json (b),
    /// regex (s), grammar (s) and choice (as), which the answer fits, or tools (s or a(ssa{sv})), which the model may call, with
    /// tool_choice (s), parallel_tool_calls (b) and max_calls (u); schema_lenient (b) is for json_schema and tools.
    /// Error.NotSupported if this model calls no tools.
    /// What is left out is as the daemon's configuration says. Sampling that the configuration does not set is as the model
    /// recommends: Model has its values.
    ///
    /// The stream is a pipe of JSON objects, one a line: {"seq":0,"text":"Hel"}, and at last
    /// {"seq":n,"done":true,"finish_reason":"stop","usage":{...}}, with "incomplete":true if it was to fit something, or could
    /// call tools, and was cut off, and with error and message if it failed. What a model thinks comes before, as
    /// {"seq":n,"text":"","reasoning":"Hm"}; of each call of a tool first
    /// {"seq":n,"text":"","tool_call":{"index":0,"id":"...","name":"...","arguments":""}}, then the same with pieces of its
    /// arguments and without id and name. The last object has all calls, tool_calls, as Request.Result tells them.
    /// Closing it cancels the request; so does not reading from it for a while. With
    /// stream="signals" it is empty, and the text comes by Request.Delta and Request.Read.
    ///
    /// Error.NotSupported, at once, to connections that did not ask the bus for file descriptors: they cannot have a
    /// pipe, and call Submit.
    ///
    /// Several requests are answered at once, each as if it were alone; Diagnostics.Work tells of them. Of those that wait,
    /// the one of the highest priority is next; within one, users take turns, then the connections of one user, and those
    /// of one connection are answered in the order of their calls. All others that ask wait likewise. A "realtime" request
    /// makes "background" ones rest where they are if there is no place for it beside them; limits.realtime_group says who
    /// may ask for it besides root: Error.InvalidOption to others. After deadline_ms, waiting included, an answer ends with
    /// what there is of it. Where a user has more than an equal share of the places, the last one rests for another user's.
    ///
    /// For group ganglion. Error.Busy if all callers have as much as there is, Error.QuotaExceeded if the caller's
    /// user has as much as one user may have; all others that ask, and OpenSession, likewise.
    #[zbus(out_args("request", "stream"))]
    async fn generate(
        &self,
        messages: Messages,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (options, kind) = options::streamed(&options, &*self.shared.config().await)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = messages.read()?;
        let client = owner.client.clone();
        let queue = self.shared.engine.generate(client, messages, options);
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        call.stream(kind, queue).await
    }

    /// As Generate, without a pipe, for callers that take no file descriptors: Request.Read has the text, and with
    /// signals=true Request.Delta too. Options are those of Generate, with signals (b) instead of stream.
    #[zbus(out_args("request"))]
    async fn submit(
        &self,
        messages: Messages,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (options, signals) = options::submitted(&options, &*self.shared.config().await)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = messages.read()?;
        let client = owner.client.clone();
        let queue = self.shared.engine.generate(client, messages, options);
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        call.submit(signals, queue).await
    }

    /// Answers one prompt within the reply, for shells. Options are those of Generate without stream, and system (s), its
    /// system message, and messages (a(sa{sv})), what was said before; with an empty prompt they are all that was said.
    /// info is what Request.Result tells.
    ///
    /// Error.Timeout if the answer is not whole after 20 s, waiting included: what was made of it is lost.
    /// Error.Cancelled if the daemon stopped before.
    #[zbus(out_args("text", "info"))]
    async fn complete(
        &self,
        prompt: Text,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(String, Info), Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let config = self.shared.config().await;
        let (options, system, before) = options::complete(&options, &config)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = messages::conversation(system, before, prompt)?;
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        completion::complete(call, messages, options).await
    }

    /// Opens a conversation that the daemon remembers, until Session.Close or until the caller leaves
    /// the bus. Options: system (s), its system message; messages (a(sa{sv})), what was said before its first turn; and of
    /// each of its turns that gives none priority (s), tools (s or a(ssa{sv})) with tool_choice (s), parallel_tool_calls (b)
    /// and max_calls (u), max_tokens (u), temperature (d), top_k (u), top_p (d), min_p (d), repetition_penalty (d), seed (t), thinking (b),
    /// thinking_tokens (u), logprobs (u). Error.ContextFull or Error.InvalidMessages
    /// if no turn could follow that, Error.NotSupported if this model calls no tools.
    ///
    /// With context_overflow="truncate_oldest" (s) a turn drops the oldest turns, whole ones, where the context has too little
    /// room for an ordinary message and its answer, or for a longer message. An ordinary message counts as an eighth of the
    /// context, 512 tokens at most, and the answer as max_tokens, a quarter of the context at most. At least a quarter is free
    /// afterwards; what the session has begun with stays, and so do its tools. While the daemon is idle after a turn, it prefills
    /// what the next turn keeps, so that a turn that drops others takes no longer. dropped_turns in the result says how many.
    /// Otherwise it is Error.ContextFull.
    ///
    /// With name (s) the session belongs to the caller's user: it outlives its caller, and unless persistent (b) is false
    /// also the daemon and a power cut. Where there is one of that name it is gone on with, and options that are given are
    /// those of its turns from then on; Error.InvalidOption if it has begun with another system message or other messages
    /// than are given, or is kept otherwise than persistent says. One connection holds it at a time: Error.Busy
    /// says which, and with take=true it is taken from there, whose turn ends as if it were cancelled and whose object
    /// goes away. Error.QuotaExceeded if the user keeps as much as one may keep, Error.EngineFailed if the disk refuses.
    /// Where a disk takes no writes a session that is there opens all the same: what was said is read, and a Branch goes on
    /// unkept. What would have to be kept is Error.EngineFailed, before anything is computed, until the disk takes writes again.
    #[zbus(out_args("session"))]
    async fn open_session(
        &self,
        options: Entries,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        // Limits are part of it.
        let config = self.shared.config().await;
        let opening = options::session(&options, &config)?;
        opening::open(&self.shared, connection, owner, &config, opening).await
    }

    /// The sessions with a name of the caller's user: of each turns (u), bytes (t) that it takes on the disk, began and used
    /// (t), when it began and when its last turn ended, in seconds since 1970, persistent (b), and where they apply holder
    /// (s), the connection that uses it, error (s), why it cannot be opened, and damaged (as), files of it that something
    /// has changed: they were set aside under these names, and nobody reads them. One that has only these, with began 0, is
    /// not there any more; who opens it begins anew.
    #[zbus(out_args("sessions"))]
    async fn list_sessions(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<HashMap<String, Info>, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let listed = self.shared.engine.list_sessions(owner.client.user).await?;
        let need = Load {
            bytes: listed
                .values()
                .map(|one| LISTED + one.damaged_bytes())
                .sum(),
            descriptors: 0,
        };
        self.shared.accounts.room(&owner, &header, need).await?;
        let named = |(name, listed): (_, &_)| (format!("{name}"), info::listed(listed));
        Ok(listed.iter().map(named).collect())
    }

    /// The messages of a session with a name of the caller's user, as Session.Messages has them, oldest first. The session is not
    /// opened: another connection may hold it. Of a session on disk the turns that context_overflow has dropped are among them, with
    /// dropped=true: its file keeps at least the newest 512 KiB of their text. Error.InvalidOption if there is none of that name,
    /// Error.EngineFailed if its file cannot be read.
    #[zbus(out_args("messages"))]
    async fn read_session(
        &self,
        name: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<(String, Info)>, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (name, user) = (session_name(name)?, owner.client.user);
        let Shared {
            engine, accounts, ..
        } = &*self.shared;
        let said = engine.transcript(user, &name).await?;
        let bytes = said.iter().map(|said| said.message.bytes()).sum();
        // They may be long: none of them is kept while this call waits for room.
        drop(said);
        let need = Load {
            bytes,
            descriptors: 0,
        };
        accounts.room(&owner, &header, need).await?;
        if bytes > LONG {
            statistics::nothing_held(connection, &owner.caller).await?;
        }
        let said = engine.transcript(user, &name).await?;
        Ok(said.into_iter().map(messages::written).collect())
    }

    /// Deletes a session with a name of the caller's user, on the disk and in the cache too, with its damaged files, but for
    /// what another session shares with it. Error.Busy while a connection holds it, Error.InvalidOption if there is none of
    /// that name.
    async fn delete_session(
        &self,
        name: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (name, user) = (session_name(name)?, owner.client.user);
        Ok(self.shared.engine.delete_session(user, name).await?)
    }

    /// Keeps requests of priority "background" off the device, until the caller closes the descriptor, leaves the bus, or
    /// hold.max_seconds are over; who has begun rests where it is. Every member of group ganglion may read the reason, up to
    /// 200 characters of it, in Holds. For root and group ganglion-admin. Error.Busy if this connection holds already,
    /// Error.NotSupported to connections that did not ask the bus for file descriptors.
    #[zbus(out_args("hold"))]
    async fn hold(
        &self,
        reason: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<zbus::OwnedFd, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let reason = messages::text(reason)?;
        let held = Held::Background;
        self.shared.hold(&owner, &header, held, &reason).await
    }

    /// The same for requests of every priority: nothing is computed meanwhile, for a robot that needs its device, or its power,
    /// for something else. For root and the members of limits.realtime_group. A connection has one hold, of either kind.
    #[zbus(out_args("hold"))]
    async fn hold_all(
        &self,
        reason: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<zbus::OwnedFd, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let reason = messages::text(reason)?;
        let held = Held::All;
        self.shared.hold(&owner, &header, held, &reason).await
    }

    /// Reads the configuration again, and answers when all of it is in force: limits, defaults and the log level at
    /// once; what the loaded model depends on by loading it anew beside the old one, which can take minutes. Running
    /// requests finish on the old one. Sessions keep their text; their next turn is read anew. Calls wait for each other.
    /// On any error all is as before: Error.InvalidOption if the configuration, or the model that it names, cannot be
    /// used, Error.OutOfMemory if there is no room for both models, Error.NotReady while the first one loads,
    /// Error.Busy if too many calls wait, Error.EngineFailed if the device or the system refused, Error.NotSupported if
    /// the engine cannot change in this way.
    async fn reload(&self) -> Result<(), Error> {
        // The first reading comes first.
        self.shared.config().await;
        let engine = &self.shared.engine;
        engine.accepting()?;
        self.shared.reloads.call(|| engine.closed().into()).await?;
        // Meanwhile it may have failed to load, and what was read never serves.
        Ok(engine.accepting()?)
    }

    /// The daemon's version.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// "loading", "ready", "failed" or "stopping".
    #[zbus(property)]
    fn state(&self) -> String {
        self.status(|status| status.state.name().to_owned())
    }

    /// For people: how far the load is, or why it failed and what helps. May be empty.
    #[zbus(property)]
    fn state_detail(&self) -> String {
        self.status(|status| status.detail.clone())
    }

    /// The model in force: name, architecture, path (s); layers, hidden, vocabulary (u); parameters (t), how many numbers its
    /// weights are; weight_bytes (t); quantization (s), the format of its weights, such as "Q4_K_M" or "BF16";
    /// trained_context (u), the tokens that it was trained for; context (u), the tokens that a conversation may take; kv_type
    /// (s), the type of the cache, or those of K and V with a slash between them; thinking (b), whether it can think before it answers; tools (s),
    /// the format in which it calls tools, a file of model.tool_formats, empty if it calls none; template (s), the part of its
    /// files that its chat template comes from, empty if it has none; sampling (a{sv}), the values that its files recommend:
    /// temperature, top_p, min_p, repetition_penalty (d), top_k (u), as far as they do.
    #[zbus(property)]
    fn model(&self) -> Info {
        self.status(|status| info::model(&status.model))
    }

    /// What computes: "cpu" or "cuda", or "sim" for the scripted engine.
    #[zbus(property)]
    fn backend(&self) -> String {
        self.status(|status| status.backend.clone())
    }

    /// Requests that wait or run.
    #[zbus(property)]
    fn queue_length(&self) -> u32 {
        self.status(|status| status.queue_length)
    }

    /// Open sessions.
    #[zbus(property)]
    fn sessions(&self) -> u32 {
        self.status(|status| status.sessions)
    }

    /// The active holds, oldest first. Of each: held (s), "background" (Hold) or "all" (HoldAll), user (u), the user id of its
    /// owner, connection (s), the owner's name on the bus, reason (s), since (t), when it began, in seconds since 1970, and
    /// seconds_left (d), the longest time that it can still last: it may end at any moment.
    #[zbus(property(emits_changed_signal = "false"))]
    fn holds(&self) -> Vec<Info> {
        let holds = self.shared.engine.holds();
        holds.iter().map(info::hold).collect()
    }

    /// What this version of the daemon can do with any model that can do it. What the model in force can do is in Model: tools
    /// and thinking.
    #[zbus(property(emits_changed_signal = "const"))]
    fn features(&self) -> Vec<String> {
        FEATURES.map(str::to_owned).to_vec()
    }

    /// Bytes in use: weights, kv, activations (t). kv is what is allocated now: it goes down when conversations end, and up
    /// again. The types of the cache: kv_type_k and kv_type_v (s). kv_reason (s) says why K has its type: "configured",
    /// "biases" (keys have biases), "measured", "not measured", or "head width" (heads are not a multiple of 16). kv_key_delta
    /// (d), if measured: how much q8_0 for K changes a short text, the mean absolute difference of log probabilities.
    #[zbus(property)]
    fn memory(&self) -> Info {
        self.status(|status| info::memory(&status.memory, status.model.kv.as_ref()))
    }
}
