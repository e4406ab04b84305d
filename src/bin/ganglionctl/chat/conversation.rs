//! A session with the daemon that outlives the daemon: after a restart a new one takes its place.

use ganglion::bus;
use ganglion::bus::proxy::{Fields, ManagerProxy, SessionProxy};
use zbus::fdo::{self, DBusProxy};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, Variant};

use crate::client::{self, Answer};
use crate::failure::Outcome;

/// A session, and the daemon that holds it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) connection: Connection,
    /// The message that every session of this conversation is opened with.
    pub(super) system: Option<String>,
    pub(super) session: SessionProxy<'static>,
    daemon: Option<OwnedUniqueName>,
}

impl Conversation {
    pub(super) async fn open(connection: Connection, system: Option<String>) -> Outcome<Self> {
        let session = open(&connection, system.as_deref()).await?;
        let daemon = daemon(&connection).await;
        Ok(Self {
            connection,
            system,
            session,
            daemon,
        })
    }

    /// Begins another conversation with the same system message.
    pub(super) async fn begin_anew(&mut self) -> Outcome {
        self.begin_with(self.system.clone()).await
    }

    /// Opens another session with that system message, and closes this one.
    pub(super) async fn begin_with(&mut self, system: Option<String>) -> Outcome {
        let session = open(&self.connection, system.as_deref()).await?;
        self.system = system;
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

    /// Sends one turn. Nothing comes of it if the daemon has restarted: then the turn was not sent, and the new session
    /// remembers nothing.
    pub(super) async fn send(
        &mut self,
        text: &str,
        options: Fields<'_>,
    ) -> Outcome<Option<Answer>> {
        let returned = self.session.send(text, options).await;
        // Another daemon answers by the same name, and may even have such a session.
        if let Err(error) = &returned
            && (is_unknown(error) || daemon(&self.connection).await != self.daemon)
        {
            self.begin_anew().await?;
            return Ok(None);
        }
        Answer::new(&self.connection, returned).await.map(Some)
    }
}

async fn open(connection: &Connection, system: Option<&str>) -> Outcome<SessionProxy<'static>> {
    let options = system.map(|system| ("system", Variant::from(system)));
    let manager = ManagerProxy::new(connection).await?;
    match manager.open_session(options.into_iter().collect()).await {
        Ok(path) => Ok(SessionProxy::new(connection, path).await?),
        Err(error) => Err(client::not_accepted(connection, error).await),
    }
}

/// Who owns the daemon's name now.
async fn daemon(connection: &Connection) -> Option<OwnedUniqueName> {
    let name = bus::NAME.try_into().ok()?;
    let driver = DBusProxy::new(connection).await.ok()?;
    driver.get_name_owner(name).await.ok()
}

fn is_unknown(error: &bus::Error) -> bool {
    matches!(error, bus::Error::Bus(zbus::Error::FDO(error))
        if matches!(**error, fdo::Error::UnknownObject(_)))
}
