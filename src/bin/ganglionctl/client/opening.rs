//! Opens sessions as the command lines of `ask` and `chat` describe them.

use std::fs;
use std::io;

use clap::{Args, ValueEnum};
use ganglion::bus;
use ganglion::bus::proxy::{Fields, ManagerProxy, SessionProxy};
use serde_json::Value;
use zbus::Connection;

use super::info::object;
use super::{messages, not_accepted};
use crate::failure::{Outcome, ensure};

/// The treatment of a turn that does not fit the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Overflow {
    /// The turn is an error
    Error,
    /// The oldest turns are dropped until a quarter of the context is free
    #[value(name = "truncate_oldest")]
    TruncateOldest,
}

impl Overflow {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::TruncateOldest => "truncate_oldest",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct OpeningArguments {
    /// A system message, before the first turn
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The system message is the text of this file
    #[arg(long, value_name = "FILE", value_parser = text, conflicts_with = "system")]
    system_file: Option<String>,
    /// Continue the session of this name, or create it: the daemon keeps it on disk. A system message is given when the
    /// session is created
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Take the session from the connection that holds it, whose answer ends
    #[arg(long, requires = "session")]
    take: bool,
    /// What happens to a turn that does not fit the context [default: truncate_oldest for a session that is created
    /// here, else what the session has]
    #[arg(long, value_name = "POLICY")]
    overflow: Option<Overflow>,
}

impl OpeningArguments {
    pub(crate) fn opening(&self) -> Opening {
        let system = self.system.as_ref().or(self.system_file.as_ref());
        Opening {
            name: self.session.clone(),
            take: self.take,
            system: system.cloned(),
            overflow: self.overflow,
            messages: Vec::new(),
        }
    }

    /// Returns the opening of a question, which has a session only with `--session`.
    ///
    /// # Errors
    /// `Exit::Usage` if `--overflow` was given without `--session`.
    pub(crate) fn named_opening(&self) -> Outcome<Opening> {
        ensure!(
            self.session.is_some() || self.overflow.is_none(),
            Usage: "--overflow is an option of a session: give --session NAME, too"
        );
        Ok(self.opening())
    }
}

/// Reads a file, without line ends at its end.
fn text(path: &str) -> Result<String, String> {
    let text = match path {
        "-" => io::read_to_string(io::stdin()),
        _ => fs::read_to_string(path),
    };
    let text = text.map_err(|error| error.to_string())?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The arguments of opening a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) name: Option<String>,
    pub(crate) take: bool,
    pub(crate) system: Option<String>,
    pub(crate) overflow: Option<Overflow>,
    /// The messages before the first turn, after the system message.
    pub(crate) messages: Vec<Value>,
}

impl Opening {
    /// Opens the session.
    ///
    /// # Errors
    /// The daemon's, and those of a missing daemon.
    pub(crate) async fn open(&self, connection: &Connection) -> Outcome<SessionProxy<'static>> {
        match self.attempt(connection).await {
            Ok(session) => Ok(session),
            Err(error) => Err(not_accepted(connection, error).await),
        }
    }

    /// Opens the session; the error is the bus's own.
    pub(crate) async fn attempt(
        &self,
        connection: &Connection,
    ) -> Result<SessionProxy<'static>, bus::Error> {
        let manager = ManagerProxy::new(connection).await?;
        let mut options = Fields::new();
        if let Some(name) = &self.name {
            options.insert("name", name.as_str().into());
            if self.take {
                options.insert("take", true.into());
            }
        }
        if let Some(system) = &self.system {
            options.insert("system", system.as_str().into());
        }
        if !self.messages.is_empty() {
            options.insert("messages", messages::to_bus(&self.messages).into());
        }
        if let Some(overflow) = self.overflow_of(&manager).await? {
            options.insert("context_overflow", overflow.name().into());
        }
        let path = manager.open_session(options).await?;
        Ok(SessionProxy::new(connection, path).await?)
    }

    /// Returns the policy of the session: an existing one keeps its own, unless another was given.
    async fn overflow_of(
        &self,
        manager: &ManagerProxy<'_>,
    ) -> Result<Option<Overflow>, bus::Error> {
        let (None, Some(name)) = (self.overflow, &self.name) else {
            return Ok(self.overflow.or(Some(Overflow::TruncateOldest)));
        };
        let is_there = listed(manager, name).await?.is_some_and(|it| !is_gone(&it));
        Ok((!is_there).then_some(Overflow::TruncateOldest))
    }
}

/// Returns the daemon's entry for the session of this name.
pub(crate) async fn listed(
    manager: &ManagerProxy<'_>,
    name: &str,
) -> Result<Option<Value>, bus::Error> {
    let listed = manager.list_sessions().await?;
    Ok(listed.get(name).map(object))
}

/// Whether a listed session consists only of damaged files, which the daemon has set aside.
pub(crate) fn is_gone(listed: &Value) -> bool {
    let damaged = listed["damaged"].as_array();
    listed["began"] == 0 && damaged.is_some_and(|files| !files.is_empty())
}
