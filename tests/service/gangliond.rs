//! The built daemon as a process, with the test in systemd's role.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ganglion::bus::Error;
use ganglion::bus::proxy::ManagerProxy;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixDatagram;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zbus::OwnedFd;
use zbus::proxy::CacheProperties;

use crate::support::daemon::eventually;
use crate::support::private_bus::PrivateBus;

/// A running gangliond, killed when it is dropped.
pub(super) struct Gangliond {
    child: Child,
    /// `None` once a test has taken it.
    stderr: Option<BufReader<ChildStderr>>,
    /// Standard error so far.
    heard: String,
    notifications: Mutex<UnboundedReceiver<String>>,
    config: PathBuf,
    _folder: tempfile::TempDir,
}

/// The end of a daemon.
#[derive(Debug)]
pub(super) struct End {
    /// `None` if a signal ended it.
    pub(super) status: Option<i32>,
    /// The signal.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    // only the driver's last words need it
    pub(super) signal: Option<i32>,
    pub(super) output: String,
    pub(super) journal: String,
}

impl Gangliond {
    /// Runs `script` on `bus`, with `config`.
    pub(super) fn scripted(bus: &PrivateBus, script: &str, config: &str) -> Self {
        Self::start(bus.text(), &["--sim", script], config)
    }

    /// Starts it with arguments in addition to `--bus` and `--config`.
    pub(super) fn start(bus: &str, arguments: &[&str], config: &str) -> Self {
        Self::start_in(bus, arguments, config, HashMap::new())
    }

    /// Starts it with additional environment variables.
    pub(super) fn start_in(
        bus: &str,
        arguments: &[&str],
        config: &str,
        environment: HashMap<OsString, OsString>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("notify");
        let notifications = listen(UnixDatagram::bind(&socket).expect("a socket"));
        let file = folder.path().join("gangliond.toml");
        std::fs::write(&file, config).expect("the configuration is written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_gangliond"))
            .args(["--bus", bus, "--config"])
            .arg(&file)
            .args(arguments)
            .env("NOTIFY_SOCKET", &socket)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("gangliond runs");
        let stderr = child.stderr.take().expect("it is piped");
        Self {
            child,
            stderr: Some(BufReader::new(stderr)),
            heard: String::new(),
            notifications: Mutex::new(notifications),
            config: file,
            _folder: folder,
        }
    }

    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Writes another configuration without a reload.
    pub(super) fn configure(&self, config: &str) {
        std::fs::write(&self.config, config).expect("the configuration is written");
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Returns the next message to systemd.
    pub(super) async fn next_notification(&self) -> String {
        let mut notifications = self.notifications.lock().await;
        let message = eventually(notifications.recv()).await;
        message.expect("the socket is read")
    }

    /// Waits for a line to systemd that begins with `expected`. Returns the messages before it.
    pub(super) async fn await_notification(&self, expected: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let message = self.next_notification().await;
            if message.lines().any(|line| line.starts_with(expected)) {
                return before;
            }
            before.push(message);
        }
    }

    /// Returns the messages to systemd since the last call.
    pub(super) async fn pending_notifications(&self) -> Vec<String> {
        let mut notifications = self.notifications.lock().await;
        std::iter::from_fn(|| notifications.try_recv().ok()).collect()
    }

    /// Waits for a line of the journal with `expected`, and returns it.
    pub(super) async fn await_line(&mut self, expected: &str) -> String {
        loop {
            let from = self.heard.len();
            let stderr = self.stderr.as_mut().expect("it is not taken yet");
            let read = eventually(stderr.read_line(&mut self.heard)).await;
            assert!(read.expect("it writes text") > 0, "{}", self.heard);
            let line = &self.heard[from..];
            if line.contains(expected) {
                return line.trim_end().to_owned();
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.process().try_into().expect("a process id"));
        kill(process, signal).expect("it can be signalled");
    }

    /// Takes its journal and makes the pipe very small.
    pub(super) fn narrow_journal(&mut self) -> BufReader<ChildStderr> {
        let journal = self.stderr.take().expect("it is not taken yet");
        fcntl(journal.get_ref(), FcntlArg::F_SETPIPE_SZ(4096)).expect("a pipe can be narrow");
        journal
    }

    /// Waits for its end.
    pub(super) async fn end(mut self) -> End {
        if let Some(mut stderr) = self.stderr.take() {
            let read = eventually(stderr.read_to_string(&mut self.heard)).await;
            read.expect("it writes text");
        }
        let done = eventually(self.child.wait_with_output()).await;
        let done = done.expect("it ends");
        End {
            status: done.status.code(),
            signal: done.status.signal(),
            output: String::from_utf8(done.stdout).expect("it writes text"),
            journal: self.heard,
        }
    }
}

/// Reads continuously like systemd: a daemon whose messages are not read would block.
fn listen(socket: UnixDatagram) -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        let mut message = [0; 4096];
        while let Ok(read) = socket.recv(&mut message).await {
            let message = String::from_utf8_lossy(&message[..read]);
            if sender.send(message.trim().to_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A new client on `bus`.
pub(super) async fn client(bus: &PrivateBus) -> ManagerProxy<'static> {
    ManagerProxy::builder(&bus.connect().await)
        .cache_properties(CacheProperties::No)
        .build()
        .await
        .expect("the proxy is built")
}

/// Asks one question as the user, and returns the answer's stream.
pub(super) async fn ask(manager: &ManagerProxy<'_>, question: &str) -> Result<OwnedFd, Error> {
    let message = HashMap::from([("content", question.into())]);
    let (_, stream) = manager
        .generate(&[("user", message)], HashMap::new())
        .await?;
    Ok(stream)
}
