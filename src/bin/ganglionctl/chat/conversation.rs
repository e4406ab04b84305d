//! A session that survives the loss of the daemon and of the bus. The client connects again and continues in the
//! session of the same name, or in a new one that begins with the same messages.

use std::time::Duration;

use ganglion::bus;
use ganglion::bus::proxy::SessionProxy;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use zbus::fdo::{self, DBusProxy};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, OwnedFd, OwnedObjectPath};

use crate::client::{self, Answer, Image, Opening, Options, Overflow, images, messages, text};
use crate::failure::{Exit, Failure, Outcome, ensure};
use crate::output;

/// The longest time that a lost daemon is awaited.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(200);

/// The result of a call that makes a request.
type Returned = Result<(OwnedObjectPath, OwnedFd), bus::Error>;

/// A session, and the daemon that holds it.
#[derive(Debug)]
pub(super) struct Conversation {
    bus: Option<String>,
    connection: Connection,
    opening: Opening,
    session: SessionProxy<'static>,
    daemon: Option<OwnedUniqueName>,
    /// All messages of the session.
    messages: Vec<Value>,
    /// Whether the daemon is lost and could not be reached again.
    lost: bool,
}

impl Conversation {
    pub(super) async fn open(bus: Option<String>, mut opening: Opening) -> Outcome<Self> {
        let connection = client::connect(bus.clone()).await?;
        let session = opening.open(&connection).await?;
        // The session is taken only once: another program may take it later.
        opening.take = false;
        let daemon = daemon(&connection).await;
        let mut conversation = Self {
            bus,
            connection,
            opening,
            session,
            daemon,
            messages: Vec::new(),
            lost: false,
        };
        conversation.remember().await;
        Ok(conversation)
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) const fn overflow(&self) -> Option<Overflow> {
        self.opening.overflow
    }

    /// Whether the daemon is lost and could not be reached again.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns the system message, empty if there is none.
    pub(super) fn system(&self) -> &str {
        let first = self.messages.first();
        let first = first.filter(|message| is_by(message, "system"));
        let own = first.map(|message| text(&message["content"]));
        own.or(self.opening.system.as_deref()).unwrap_or_default()
    }

    /// Leaves the session, silently if the daemon is gone. A named session stays.
    pub(super) async fn close(&self) {
        let _ = self.session.close().await;
    }

    /// Begins an unnamed conversation with this system message.
    pub(super) async fn begin(&mut self, system: Option<String>) -> Outcome {
        self.begin_with(system, Vec::new()).await
    }

    /// Begins an unnamed conversation with this system message and these messages.
    pub(super) async fn begin_with(
        &mut self,
        system: Option<String>,
        messages: Vec<Value>,
    ) -> Outcome {
        self.replace(Opening {
            name: None,
            system,
            messages,
            ..self.opening.clone()
        })
        .await
    }

    /// Begins a conversation with messages, of which the first may be the system message.
    pub(super) async fn continue_with(&mut self, messages: Vec<Value>) -> Outcome {
        let (system, messages) = split_system(messages);
        self.begin_with(system, messages).await
    }

    /// Continues the session of this name.
    pub(super) async fn switch(&mut self, name: &str) -> Outcome {
        self.replace(Opening {
            name: Some(name.into()),
            overflow: self.opening.overflow,
            ..Opening::default()
        })
        .await
    }

    /// Sets the policy for later turns.
    pub(super) async fn set_overflow(&mut self, overflow: Option<Overflow>) -> Outcome {
        self.reconnect().await?;
        let opening = Opening {
            overflow,
            ..self.same()
        };
        self.replace(opening).await
    }

    /// Returns all messages of the session, as the daemon has them.
    pub(super) async fn messages(&mut self) -> Outcome<&[Value]> {
        self.reconnect().await?;
        let messages = self.session.messages().await?;
        self.messages = messages.into_iter().map(messages::to_json).collect();
        Ok(&self.messages)
    }

    /// Undoes the last turn.
    pub(super) async fn undo(&mut self) -> Outcome {
        self.reconnect().await?;
        if self.session.turns().await? > 0 || self.opening.messages.is_empty() {
            self.session.rewind(1).await?;
            self.remember().await;
            return Ok(());
        }
        // The turn belongs to a previous session, so the daemon knows only its messages.
        let mut opening = self.same();
        let last = questions(&opening.messages).last();
        ensure!(last.is_some(), Failed: "/undo: there is no turn to undo");
        opening.messages.truncate(last.unwrap_or_default());
        self.replace(opening).await
    }

    /// Undoes all turns.
    pub(super) async fn clear(&mut self) -> Outcome {
        self.reconnect().await?;
        if !self.opening.messages.is_empty() {
            return self.begin(self.opening.system.clone()).await;
        }
        self.session.clear().await?;
        self.remember().await;
        Ok(())
    }

    /// Sends a turn. If the session or the daemon was lost before it accepted the turn, the turn is sent again.
    pub(super) async fn send(
        &mut self,
        text: &str,
        images: &[Image],
        options: &Options,
    ) -> Outcome<Answer> {
        self.reconnect().await?;
        let mut returned = self.turn(text, images, options).await?;
        if let Err(error) = &returned
            && self.is_lost_by(error).await
        {
            self.recover().await?;
            returned = self.turn(text, images, options).await?;
        }
        // The daemon drops turns, but not the messages at a session's beginning.
        while let Err(bus::Error::ContextFull(_)) = &returned {
            let mut opening = self.same();
            if self.opening.messages.is_empty() || !shorten(&mut opening) {
                break;
            }
            self.replace(opening).await?;
            returned = self.turn(text, images, options).await?;
        }
        Answer::new(&self.connection, returned).await
    }

    /// Calls the session; the inner error is the bus's own.
    async fn turn(&self, text: &str, images: &[Image], options: &Options) -> Outcome<Returned> {
        if images.is_empty() {
            return Ok(self.session.send(text, options.fields()).await);
        }
        let said = [("user", images::message(images, text.to_owned())?)];
        Ok(self.session.reply(&said, options.fields()).await)
    }

    /// Fetches the messages, in case the daemon is lost later. Returns false if it is lost already: then the previously
    /// known messages stay.
    pub(super) async fn remember(&mut self) -> bool {
        let messages = self.session.messages().await;
        let is_there = messages.is_ok();
        if let Ok(messages) = messages {
            self.messages = messages.into_iter().map(messages::to_json).collect();
        }
        is_there
    }

    /// Adds a turn to the known messages, also if the daemon was lost during it.
    pub(super) async fn remember_turn(&mut self, question: &str, answer: &str) {
        let is_known = self.remember().await;
        // The daemon has the messages of a named session.
        if !is_known && self.opening.name.is_none() && !answer.is_empty() {
            let message = |role, content| json!({"role": role, "content": content});
            let turn = [message("user", question), message("assistant", answer)];
            self.messages.extend(turn);
        }
    }

    /// Replaces the session by another one.
    async fn replace(&mut self, mut opening: Opening) -> Outcome {
        self.reconnect().await?;
        let same = opening.name.is_some() && opening.name == self.opening.name;
        if same {
            self.close().await;
        }
        let session = match open_shortened(&mut opening, &self.connection).await {
            Ok(session) => session,
            Err(error) => {
                let failure = client::not_accepted(&self.connection, error).await;
                if same {
                    // The previous session is opened again.
                    self.session = self.opening.open(&self.connection).await?;
                }
                return Err(failure);
            }
        };
        if !same {
            self.close().await;
        }
        self.session = session;
        self.opening = opening;
        self.messages.clear();
        self.remember().await;
        Ok(())
    }

    /// Returns the opening of a session that continues this conversation.
    fn same(&self) -> Opening {
        let mut opening = self.opening.clone();
        if opening.name.is_none() {
            let (system, messages) = split_system(self.messages.clone());
            opening.system = system.or(opening.system);
            opening.messages = messages;
        }
        opening
    }

    /// Connects again if the daemon is not the one that has the session.
    async fn reconnect(&mut self) -> Outcome {
        let is_there = !self.connection.is_closed()
            && self.daemon.is_some()
            && daemon(&self.connection).await == self.daemon;
        if !is_there {
            return self.recover().await;
        }
        self.lost = false;
        Ok(())
    }

    /// Whether an error means that the session or its daemon is lost.
    async fn is_lost_by(&self, error: &bus::Error) -> bool {
        // Another daemon with the same name may even have a session of the same path.
        is_away(error)
            || is_unknown(error)
            // The daemon is stopping, or another connection has taken the session.
            || matches!(error, bus::Error::NotReady(_))
            || self.connection.is_closed()
            || daemon(&self.connection).await != self.daemon
    }

    /// Connects again, waits for the daemon, and opens a session that continues this conversation.
    async fn recover(&mut self) -> Outcome {
        self.lost = true;
        let (before, mut opening) = (self.messages.len(), self.same());
        let until = Instant::now() + PATIENCE;
        let (mut reported, mut lost_bus) = (false, false);
        let (connection, session) = loop {
            // An attempt may be the first to notice it.
            lost_bus |= self.connection.is_closed();
            let (failure, may_pass) = match self.attempt(&mut opening, lost_bus).await {
                Ok(found) => break found,
                Err(failed) => failed,
            };
            if !may_pass || Instant::now() >= until {
                return Err(failure);
            }
            if !std::mem::replace(&mut reported, true) {
                output::note(&format!(
                    "ganglionctl: the daemon is gone; waiting up to {} s for it",
                    PATIENCE.as_secs()
                ));
            }
            sleep(PAUSE).await;
        };
        let is_other = lost_bus || daemon(&connection).await != self.daemon;
        self.daemon = daemon(&connection).await;
        (self.connection, self.session) = (connection, session);
        self.opening = opening;
        self.lost = false;
        self.remember().await;
        let what = match (lost_bus, is_other) {
            (true, _) => "the connection to the bus was lost",
            (false, true) => "the daemon has restarted",
            (false, false) => "the session was lost",
        };
        let then = match &self.opening.name {
            Some(name) if self.messages.len() < before => {
                format!("session {name:?} was not kept, and begins anew")
            }
            Some(name) => format!("session {name:?} continues"),
            None => "the conversation continues in a new session".into(),
        };
        output::note(&format!("ganglionctl: {what}; {then}"));
        Ok(())
    }

    /// Tries once to open the session; the error says whether another attempt may succeed.
    async fn attempt(
        &self,
        opening: &mut Opening,
        lost_bus: bool,
    ) -> Result<(Connection, SessionProxy<'static>), (Failure, bool)> {
        let connection = if lost_bus {
            let connected = client::connect(self.bus.clone()).await;
            connected.map_err(|failure| (failure, true))?
        } else {
            self.connection.clone()
        };
        match open_shortened(opening, &connection).await {
            Ok(session) => Ok((connection, session)),
            Err(error) => {
                let stops = matches!(error, bus::Error::NotReady(_));
                let held = lost_bus && matches!(error, bus::Error::Busy(_));
                let may_pass = is_away(&error) || stops || held;
                let failure = client::not_accepted(&connection, error).await;
                let may_pass = may_pass && failure.exit != Exit::Config;
                Err((failure, may_pass))
            }
        }
    }
}

/// Opens a session, and drops the oldest of its first messages if the context does not hold them all.
async fn open_shortened(
    opening: &mut Opening,
    connection: &Connection,
) -> Result<SessionProxy<'static>, bus::Error> {
    loop {
        match opening.attempt(connection).await {
            Err(bus::Error::ContextFull(_)) if shorten(opening) => {}
            opened => return opened,
        }
    }
}

/// Drops the older half of an opening's turns if its policy allows it. Returns whether there was anything to drop.
fn shorten(opening: &mut Opening) -> bool {
    let is_allowed = opening.overflow != Some(Overflow::Error);
    if !is_allowed || opening.messages.is_empty() {
        return false;
    }
    let starts: Vec<_> = questions(&opening.messages).collect();
    let middle = starts.get(starts.len().div_ceil(2)).copied();
    let dropped = middle.unwrap_or(opening.messages.len());
    opening.messages.drain(..dropped);
    output::note("ganglionctl: the context is full: the oldest turns were dropped");
    true
}

/// Splits a conversation into its system message and all others.
fn split_system(mut messages: Vec<Value>) -> (Option<String>, Vec<Value>) {
    let has_system = messages.first().is_some_and(|it| is_by(it, "system"));
    let system = has_system.then(|| messages.remove(0));
    let system = system.map(|message| text(&message["content"]).to_owned());
    (system, messages)
}

/// Returns the positions of the user's messages.
fn questions(messages: &[Value]) -> impl Iterator<Item = usize> {
    let each = messages.iter().enumerate();
    each.filter(|(_, message)| is_by(message, "user"))
        .map(|(at, _)| at)
}

fn is_by(message: &Value, role: &str) -> bool {
    message["role"] == role
}

/// Returns the present owner of the daemon's name.
async fn daemon(connection: &Connection) -> Option<OwnedUniqueName> {
    let name = bus::NAME.try_into().ok()?;
    let driver = DBusProxy::new(connection).await.ok()?;
    driver.get_name_owner(name).await.ok()
}

fn is_unknown(error: &bus::Error) -> bool {
    matches!(standard(error), Some(fdo::Error::UnknownObject(_)))
}

/// Whether an error means that the daemon did not answer.
fn is_away(error: &bus::Error) -> bool {
    use fdo::Error::{Disconnected, NameHasNoOwner, NoReply, ServiceUnknown};
    let away = matches!(
        standard(error),
        Some(Disconnected(_) | NameHasNoOwner(_) | NoReply(_) | ServiceUnknown(_))
    );
    away || matches!(error, bus::Error::Bus(zbus::Error::InputOutput(_)))
}

/// Returns the error if it is one of the bus's own.
fn standard(error: &bus::Error) -> Option<&fdo::Error> {
    match error {
        bus::Error::Bus(zbus::Error::FDO(error)) => Some(error),
        _ => None,
    }
}
