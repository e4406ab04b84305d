//! The socket of OpenAI's API: its unit, this user's access to it, and the daemon's answer about its health.
//!
//! Not here: requests to the model.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access as may};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Where the system's daemon is served.
pub(crate) const SOCKET: &str = "/run/ganglion/openai.sock";
/// The unit that listens there.
pub(crate) const UNIT: &str = "ganglion-openai.socket";
/// The properties that `systemctl show` is asked for.
const PROPERTIES: &str = "LoadState,ActiveState,UnitFileState,Listen,NeedDaemonReload";
/// The longest time that a daemon takes to say whether it is healthy.
const ANSWERED: Duration = Duration::from_secs(5);
/// The most bytes of that answer.
const LONGEST: usize = 64 << 10;

/// What this user may do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Usable,
    Missing,
    NotASocket,
    Denied,
}

/// Checks a path without a connection, which would start the daemon.
pub(crate) fn access(path: &Path) -> Access {
    use std::os::unix::fs::FileTypeExt as _;
    match may(path, AccessFlags::R_OK | AccessFlags::W_OK) {
        Err(Errno::EACCES | Errno::EPERM) => Access::Denied,
        Err(_) => Access::Missing,
        Ok(()) => match path.metadata() {
            Ok(found) if found.file_type().is_socket() => Access::Usable,
            _ => Access::NotASocket,
        },
    }
}

/// The socket's unit as systemd describes it; empty if systemd does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit(String);

impl Unit {
    /// Asks systemd of this machine.
    pub(crate) fn read() -> Self {
        let shown = Command::new("systemctl")
            .args(Self::question().split(' ').skip(1))
            .stdin(Stdio::null())
            .output();
        let shown = shown.ok().filter(|output| output.status.success());
        let shown = shown.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Self(shown.unwrap_or_default())
    }

    /// Returns the command whose output describes the unit.
    pub(crate) fn question() -> String {
        format!("systemctl show {UNIT} --no-pager -p {PROPERTIES}")
    }

    /// Reads the output of that command.
    pub(crate) fn parse(shown: String) -> Self {
        Self(shown)
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.all(key).next().unwrap_or_default()
    }

    /// Returns the values of a property that has a line for each.
    fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        lines.filter_map(move |(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.get("ActiveState") == "active"
    }

    /// Returns the addresses with a port that it listens on.
    pub(crate) fn tcp(&self) -> Vec<&str> {
        let listened = self
            .all("Listen")
            .filter_map(|one| one.strip_suffix(" (Stream)"));
        listened.filter(|at| !at.starts_with(['/', '@'])).collect()
    }

    /// Returns the remedy for a missing socket.
    pub(crate) fn remedy(&self) -> String {
        match self.get("LoadState") {
            "" => "systemd does not run here: start gangliond --http PATH".into(),
            // systemd does not start a socket whose service runs.
            "loaded" if self.is_active() => {
                format!("sudo systemctl stop {UNIT} gangliond; sudo systemctl start gangliond")
            }
            "loaded" => format!("sudo systemctl enable {UNIT}; sudo systemctl restart gangliond"),
            "masked" => format!("sudo systemctl unmask {UNIT}; sudo systemctl restart gangliond"),
            _ => format!("this system has no {UNIT}; reinstall the package"),
        }
    }
}

/// Asks a daemon for its health. Connecting to the socket of a system's daemon starts the daemon.
///
/// # Errors
/// A text about the connection or the answer.
pub(crate) async fn health(path: &Path) -> Result<(StatusCode, Value), String> {
    let asked = timeout(ANSWERED, ask(path)).await;
    asked.map_err(|_| format!("it has not answered for {} s", ANSWERED.as_secs()))?
}

async fn ask(path: &Path) -> Result<(StatusCode, Value), String> {
    let stream = UnixStream::connect(path).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let opened = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(|error| error.to_string())?;
    let request = Request::get("/health").header("host", "localhost");
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let answered = async {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    };
    tokio::select! {
        answered = answered => answered,
        ended = connection => Err(ended.map_or_else(
            |error| error.to_string(),
            |()| "it closed the connection".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn ports_of_a_unit_are_found() {
        let shown = "Listen=/run/ganglion/openai.sock (Stream)\nListen=127.0.0.1:11435 (Stream)\n\
                     LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n";
        let unit = Unit::parse(shown.into());
        assert_eq!(unit.tcp(), ["127.0.0.1:11435"]);
        assert!(unit.is_active() && unit.get("UnitFileState") == "enabled");
        assert_eq!(Unit::default().tcp(), Vec::<&str>::new());
    }
}
