//! A daemon that answers on a private bus and on a socket, and requests to it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ganglion::bus::proxy::{Fields, Info};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use zbus::Variant;

use crate::support::daemon::{Client, eventually, until};
use crate::support::gguf_writer::GgufWriter;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

/// A daemon that answers on a bus and on a socket.
pub(super) struct Served {
    pub(super) bus: PrivateBus,
    pub(super) client: Client,
    socket: PathBuf,
    _daemon: Process,
    _folder: tempfile::TempDir,
}

impl Served {
    pub(super) async fn script(script: &str) -> Self {
        Self::start(Some(format!("--sim={script}")), "").await
    }

    /// Starts the daemon with a model.
    pub(super) async fn model(path: &Path, more: &str) -> Self {
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{}'\nmodel.tool_formats = '{}/config/tools'\n{more}",
            path.display(),
            env!("CARGO_MANIFEST_DIR")
        );
        Self::start(None, &config).await
    }

    /// Starts the daemon with SmolLM2.
    pub(super) async fn smollm2() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let model = root.join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
        Self::model(&model, "kv.context = 1024\n").await
    }

    pub(super) async fn tiny(gguf: &GgufWriter, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tiny.gguf");
        std::fs::write(&path, gguf.file()).expect("it is written");
        // The daemon has the model when it is ready.
        Self::model(&path, more).await
    }

    async fn start(argument: Option<String>, config: &str) -> Self {
        let bus = PrivateBus::start();
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("http");
        let sessions = folder.path().join("sessions");
        let config = format!("{config}\nsessions.directory = '{}'\n", sessions.display());
        let http = format!("--http={}", socket.display());
        let arguments: Vec<&str> = argument
            .iter()
            .map(String::as_str)
            .chain([&*http])
            .collect();
        let daemon = Process::on(bus.text(), &arguments, &config);
        let client = Client::connect(&bus).await;
        until(async || {
            client
                .manager
                .state()
                .await
                .is_ok_and(|state| state == "ready")
        })
        .await;
        Self {
            bus,
            client,
            socket,
            _daemon: daemon,
            _folder: folder,
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request on a connection of its own.
    pub(super) async fn send(&self, path: &str, body: &Value) -> UnixStream {
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: robot\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = UnixStream::connect(&self.socket).await.expect("it listens");
        let request = head + &body;
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        stream
    }

    /// Returns the status and the body of an answer.
    pub(super) async fn ask(&self, path: &str, body: &Value) -> (u16, String) {
        let mut stream = self.send(path, body).await;
        let mut answer = String::new();
        let read = eventually(stream.read_to_string(&mut answer)).await;
        read.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = if head.contains("transfer-encoding: chunked") {
            joined(body)
        } else {
            body.to_owned()
        };
        (status.expect("a status"), body)
    }
}

/// Returns the names and the data of the events of a stream.
pub(super) fn events(stream: &str) -> Vec<(String, Value)> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").expect("data");
        let name = name.strip_prefix("event: ").expect("a name");
        (name.to_owned(), serde_json::from_str(data).expect("JSON"))
    };
    stream.split_terminator("\n\n").map(event).collect()
}

/// Joins the pieces of a chunked body.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n").expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a number");
        if length == 0 {
            return whole;
        }
        whole += &rest[..length];
        body = rest[length..]
            .strip_prefix("\r\n")
            .expect("the end of a piece");
    }
}

pub(super) fn fields<'a, const N: usize>(entries: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    HashMap::from(entries)
}

pub(super) fn text(info: &Info, key: &str) -> String {
    match info.get(key).map(|value| &**value) {
        Some(Variant::Str(text)) => text.to_string(),
        other => panic!("{key}: {other:?}"),
    }
}
