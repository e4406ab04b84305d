//! The outcomes of requests, counted by name.

use std::collections::BTreeMap;
use std::fmt;

use ganglion::bus::proxy::{Fields, ManagerProxy};
use ganglion::bus::{Error, Frame};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use zbus::proxy::CacheProperties;
use zbus::{Connection, DBusError as _, OwnedFd, Variant};

use crate::Failed;

/// The characters of a message that are printed.
const SHOWN: usize = 100;

/// The number of each outcome, with its first message.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(BTreeMap<String, (usize, String)>);

impl Outcomes {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        let (count, _) = self.0.entry(outcome.name).or_insert((0, outcome.message));
        *count += 1;
    }

    /// Returns the number of outcomes with that name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.get(name).map_or(0, |(count, _)| *count)
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, (count, message)) in &self.0 {
            write!(formatter, "{count} {name}")?;
            if message.is_empty() {
                writeln!(formatter)?;
            } else {
                writeln!(formatter, " ({message})")?;
            }
        }
        Ok(())
    }
}

/// A finish reason, or the last part of an error's name, and its message.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    message: String,
    pub(crate) text: String,
}

impl Outcome {
    pub(crate) fn new(name: &str, message: &str) -> Self {
        Self {
            name: name.rsplit('.').next().unwrap_or(name).to_owned(),
            message: message.chars().take(SHOWN).collect(),
            text: String::new(),
        }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        if let Error::Bus(zbus::Error::MethodError(name, message, _)) = &error {
            return Self::new(name, message.as_deref().unwrap_or_default());
        }
        let text = error.to_string();
        // The text starts with the name.
        let message = text.split_once(": ").map_or("", |(_, message)| message);
        Self::new(&error.name(), message)
    }
}

/// Opens a connection, and returns it with the daemon's object.
pub(crate) async fn manager() -> zbus::Result<ManagerProxy<'static>> {
    let connection = Connection::system().await?;
    ManagerProxy::builder(&connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// Sends a request, and reads the answer to its end.
pub(crate) async fn generate(
    manager: &ManagerProxy<'_>,
    text: &str,
    options: Fields<'_>,
) -> Result<Outcome, Failed> {
    let message = ("user", Fields::from([("content", Variant::from(text))]));
    match manager.generate(&[message], options).await {
        Ok((_, stream)) => ending(stream).await,
        Err(error) => Ok(error.into()),
    }
}

/// Returns the end of a stream, or "lost" if it has no last frame.
pub(crate) async fn ending(stream: OwnedFd) -> Result<Outcome, Failed> {
    let mut lines = BufReader::new(Receiver::from_owned_fd(stream.into())?).lines();
    let mut text = String::new();
    while let Some(line) = lines.next_line().await? {
        match Frame::from_line(&line)? {
            Frame::Done {
                finish_reason,
                error,
                message,
                ..
            } => {
                let name = error.as_deref().unwrap_or(finish_reason.name());
                let message = message.unwrap_or_default();
                return Ok(Outcome {
                    text,
                    ..Outcome::new(name, &message)
                });
            }
            Frame::Text { text: more, .. } => text.push_str(&more),
            Frame::Reasoning { .. } | Frame::ToolCall { .. } => {}
        }
    }
    Ok(Outcome::new("lost", ""))
}
