//! A session with the daemon that outlives the daemon: after a restart a new one takes its place.

use clap::Args;
use ganglion::bus;
use ganglion::bus::proxy::{Fields, SessionProxy};
use zbus::fdo::{self, DBusProxy};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, Variant};

use crate::client::answer::Answer;
use crate::client::{self, refused};
use crate::failure::Failure;

/// What every session of this conversation is opened with.
#[derive(Clone, Debug, Args)]
pub(super) struct Setting {
    /// A system message, before the first turn
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
}

/// A session, and the daemon that holds it.
#[derive(Debug)]
pub(super) struct Conversation {
    connection: Connection,
    setting: Setting,
    session: SessionProxy<'static>,
    daemon: Option<OwnedUniqueName>,
}

/// What sending a turn led to.
#[derive(Debug)]
pub(super) enum Sent {
    Accepted(Answer),
    /// The daemon has restarted: the turn was not sent, and the new session remembers nothing.
    Forgotten,
}

impl Conversation {
    pub(super) async fn open(connection: Connection, setting: Setting) -> Result<Self, Failure> {
        let session = open(&connection, &setting).await?;
        let daemon = daemon(&connection).await;
        Ok(Self {
            connection,
            setting,
            session,
            daemon,
        })
    }

    /// Whether the bus itself is gone: nothing more can be said.
    pub(super) fn is_lost(&self) -> bool {
        self.connection.is_closed()
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The system message.
    pub(super) fn system(&self) -> Option<&str> {
        self.setting.system.as_deref()
    }

    /// Begins another conversation, with that system message.
    pub(super) async fn begin_with(&mut self, system: Option<&str>) -> Result<(), Failure> {
        let system = system.map(str::to_owned);
        let before = std::mem::replace(&mut self.setting.system, system);
        self.begin_anew().await.inspect_err(|_| {
            // The session of before is still open.
            self.setting.system = before;
        })
    }

    /// Opens another session, and closes this one.
    pub(super) async fn begin_anew(&mut self) -> Result<(), Failure> {
        let session = open(&self.connection, &self.setting).await?;
        let old = std::mem::replace(&mut self.session, session);
        let daemon = daemon(&self.connection).await;
        if daemon == self.daemon {
            let _ = old.close().await;
        } else {
            // The old session went with its daemon, and its path may now be the new one's.
            self.daemon = daemon;
        }
        Ok(())
    }

    /// Sends one turn.
    pub(super) async fn send(&mut self, text: &str, options: Fields<'_>) -> Result<Sent, Failure> {
        match self.session.send(text, options).await {
            Ok(accepted) => Answer::new(&self.connection, accepted)
                .await
                .map(Sent::Accepted),
            Err(error) => {
                // Another daemon answers by the same name, and may even have such a session.
                let restarted = daemon(&self.connection).await != self.daemon;
                if restarted || is_unknown(&error) {
                    self.begin_anew().await?;
                    Ok(Sent::Forgotten)
                } else {
                    Err(client::not_accepted(&self.connection, error).await)
                }
            }
        }
    }

    /// What was said so far: role and text, oldest first.
    pub(super) async fn history(&self) -> Result<Vec<(String, String)>, Failure> {
        self.session.history().await.map_err(refused)
    }

    /// Takes back the last turn.
    pub(super) async fn rewind(&self) -> Result<(), Failure> {
        self.session.rewind(1).await.map_err(refused)
    }

    /// Takes back all turns.
    pub(super) async fn clear(&self) -> Result<(), Failure> {
        self.session.clear().await.map_err(refused)
    }

    pub(super) async fn close(self) {
        // The daemon closes what a client leaves behind.
        let _ = self.session.close().await;
    }
}

async fn open(
    connection: &Connection,
    setting: &Setting,
) -> Result<SessionProxy<'static>, Failure> {
    let options: Fields<'_> = setting
        .system
        .as_deref()
        .map(|system| ("system", Variant::from(system)))
        .into_iter()
        .collect();
    let path = match client::manager(connection)
        .await?
        .open_session(options)
        .await
    {
        Ok(path) => path,
        Err(error) => return Err(client::not_accepted(connection, error).await),
    };
    SessionProxy::new(connection, path)
        .await
        .map_err(|error| refused(error.into()))
}

/// Who owns the daemon's name now.
async fn daemon(connection: &Connection) -> Option<OwnedUniqueName> {
    let name = bus::NAME.try_into().ok()?;
    DBusProxy::new(connection)
        .await
        .ok()?
        .get_name_owner(name)
        .await
        .ok()
}

fn is_unknown(error: &bus::Error) -> bool {
    matches!(error, bus::Error::Bus(zbus::Error::FDO(error))
        if matches!(**error, fdo::Error::UnknownObject(_)))
}
