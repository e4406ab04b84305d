//! `org.ganglion.Llm1.Manager`: makes requests, opens sessions, reports the state of the daemon.
//!
//! `config/interfaces/org.ganglion.Llm1.Manager.xml` describes each member.

// An interface needs receivers.
#![allow(clippy::unused_self)]

use std::collections::HashMap;
use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, OwnedFd, OwnedObjectPath, interface};

use super::accounts::Load;
use super::argument::Text;
use super::delivery::{Call, Replied};
use super::error::Error;
use super::messages_argument::{self, Messages};
use super::options_argument::OptionsArgument;
use super::proxy::Info;
use super::session::LONG;
use super::shared::Shared;
use super::{bus_statistics, complete, info, open_session, options};
use crate::engine::{Held, ModelInfo, Name, NameError, Status};
use crate::front::{self, Completion};

/// The features that clients may rely on, whatever the model; a name is never removed.
const FEATURES: [&str; 29] = [
    "complete",
    "complete.messages",
    "deadlines",
    "decode_graph",
    "guess",
    "hold",
    "hold.all",
    "hold.list",
    "priorities",
    "reasoning",
    "release",
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

/// The feature of models with a vision tower.
const IMAGES: &str = "images";

/// Returns the features of the daemon with this model, in alphabetical order.
pub(super) fn features(model: &ModelInfo) -> Vec<String> {
    let of_model = model.images.then_some(IMAGES);
    let mut names: Vec<_> = FEATURES.into_iter().chain(of_model).collect();
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

/// The approximate bytes of one listed session.
const LISTED: usize = 256;

#[derive(Debug)]
pub(super) struct Manager {
    pub(super) shared: Arc<Shared>,
}

/// Returns the name of a session from an argument.
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

/// Answers requests, opens sessions, reports the state of the daemon. The XML file of the interface describes each member.
#[interface(name = "org.ganglion.Llm1.Manager", introspection_docs = false)]
impl Manager {
    /// Answers one conversation through a pipe.
    #[zbus(out_args("request", "stream"))]
    async fn generate(
        &self,
        messages: Messages,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(Replied, OwnedFd), Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (options, kind) = options::streamed(options, &*self.shared.front_config().await)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = messages.read()?;
        let client = owner.client.clone();
        let queue = self.shared.front.generate(client, messages, options);
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        call.stream(kind, queue).await
    }

    /// Answers one conversation; Request.Read returns the text.
    #[zbus(out_args("request"))]
    async fn submit(
        &self,
        messages: Messages,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Replied, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let (options, signals) = options::submitted(options, &*self.shared.front_config().await)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = messages.read()?;
        let client = owner.client.clone();
        let queue = self.shared.front.generate(client, messages, options);
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        call.submit(signals, queue).await
    }

    /// Answers one prompt within the reply.
    #[zbus(out_args("text", "info"))]
    async fn complete(
        &self,
        prompt: Text,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(String, Info), Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let config = self.shared.front_config().await;
        let Completion {
            options,
            system,
            earlier,
        } = front::completion(&options.0, &config)?;
        self.shared
            .admit_priority(&owner.client, options.priority)
            .await?;
        let messages = front::conversation(system, earlier, prompt.read()?);
        let call = Call {
            shared: &self.shared,
            connection,
            header: &header,
            owner,
        };
        complete::complete(call, messages, options).await
    }

    /// Opens a conversation that the daemon remembers.
    #[zbus(out_args("session"))]
    async fn open_session(
        &self,
        options: OptionsArgument,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let config = self.shared.front_config().await;
        let session = front::new_session(&options.0, &config)?;
        open_session::open(&self.shared, connection, owner, &config, session).await
    }

    /// Lists the named sessions of the caller's user.
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

    /// Returns the messages of a named session without opening it.
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
        // The messages may be long: they are dropped while this call waits for room.
        drop(said);
        let need = Load {
            bytes,
            descriptors: 0,
        };
        accounts.room(&owner, &header, need).await?;
        if bytes > LONG {
            bus_statistics::nothing_held(connection, &owner.caller).await?;
        }
        let said = engine.transcript(user, &name).await?;
        Ok(said.into_iter().map(messages_argument::encode).collect())
    }

    /// Deletes a named session of the caller's user.
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

    /// Keeps requests of priority "background" off the device.
    #[zbus(out_args("hold"))]
    async fn hold(
        &self,
        reason: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<zbus::OwnedFd, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let reason = reason.read()?;
        let held = Held::Background;
        self.shared.hold(&owner, &header, held, &reason).await
    }

    /// Keeps all requests off the device.
    #[zbus(out_args("hold"))]
    async fn hold_all(
        &self,
        reason: Text,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<zbus::OwnedFd, Error> {
        let owner = self.shared.caller(connection, &header).await?;
        let reason = reason.read()?;
        let held = Held::All;
        self.shared.hold(&owner, &header, held, &reason).await
    }

    /// Reads the configuration again and applies all of it, or nothing.
    async fn reload(&self) -> Result<(), Error> {
        // A reload comes after the first configuration.
        self.shared.front_config().await;
        let engine = &self.shared.engine;
        engine.accepting()?;
        self.shared.reloads.call(|| engine.closed().into()).await?;
        // The first model may have failed to load meanwhile: then the new configuration has no effect.
        Ok(engine.accepting()?)
    }

    /// Releases the memory of the model until a request needs it.
    async fn release(&self) -> Result<(), Error> {
        // The first configuration comes before the first model.
        self.shared.front_config().await;
        Ok(self.shared.engine.release().await?)
    }

    /// The version of the daemon.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// "loading", "ready", "idle", "failed" or "stopping".
    #[zbus(property)]
    fn state(&self) -> String {
        self.status(|status| status.state.name().to_owned())
    }

    /// The progress of the load, the reason of a failure and its remedy, or why the model is released; may be empty.
    #[zbus(property)]
    fn state_detail(&self) -> String {
        self.status(|status| status.detail.clone())
    }

    /// The loaded model.
    #[zbus(property)]
    fn model(&self) -> Info {
        self.status(|status| info::model(&status.model))
    }

    /// The backend that computes: "cpu", "cuda", or "sim" for the scripted engine.
    #[zbus(property)]
    fn backend(&self) -> String {
        self.status(|status| status.backend.clone())
    }

    /// Requests that are queued or running.
    #[zbus(property)]
    fn queue_length(&self) -> u32 {
        self.status(|status| status.queue_length)
    }

    /// Open sessions.
    #[zbus(property)]
    fn sessions(&self) -> u32 {
        self.status(|status| status.sessions)
    }

    /// The active holds, oldest first.
    #[zbus(property(emits_changed_signal = "false"))]
    fn holds(&self) -> Vec<Info> {
        let holds = self.shared.engine.holds();
        holds.iter().map(info::hold).collect()
    }

    /// The features of this version of the daemon, and of the loaded model.
    #[zbus(property)]
    fn features(&self) -> Vec<String> {
        self.status(|status| features(&status.model))
    }

    /// Bytes in use, and the types of the key-value cache.
    #[zbus(property)]
    fn memory(&self) -> Info {
        self.status(|status| info::memory(&status.memory, status.model.kv.as_ref()))
    }
}
