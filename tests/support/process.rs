//! gangliond as a separate process, with a script or a model.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use super::daemon::{Client, until};
use super::private_bus::PrivateBus;

/// A running gangliond, until it is dropped.
pub(crate) struct Process {
    child: Child,
    folder: tempfile::TempDir,
}

impl Process {
    /// Starts it on `bus` with the text of a configuration file, and waits until it is ready.
    pub(crate) async fn start(bus: &PrivateBus, script: &str, config: &str) -> Self {
        Self::ready(bus, &[&format!("--sim={script}")], config).await
    }

    /// Starts it with the model of the configuration, and waits until it is ready.
    pub(crate) async fn serving(bus: &PrivateBus, config: &str) -> Self {
        Self::ready(bus, &[], config).await
    }

    /// Starts it with a model and further arguments, and waits until it is ready.
    pub(crate) async fn serving_with(bus: &PrivateBus, arguments: &[&str], config: &str) -> Self {
        Self::ready(bus, arguments, config).await
    }

    /// Starts it with a socket for HTTP at `http`, and waits until it is ready.
    pub(crate) async fn over_http(
        bus: &PrivateBus,
        script: &str,
        config: &str,
        http: &Path,
    ) -> Self {
        let http = format!("--http={}", http.display());
        Self::ready(bus, &[&format!("--sim={script}"), &http], config).await
    }

    async fn ready(bus: &PrivateBus, arguments: &[&str], config: &str) -> Self {
        let process = Self::on(bus.text(), arguments, config);
        let Client { manager, .. } = Client::connect(bus).await;
        until(async || manager.state().await.is_ok_and(|state| state == "ready")).await;
        process
    }

    /// Starts it on the bus at `address` without waiting.
    pub(crate) fn on(address: &str, arguments: &[&str], config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gangliond.toml");
        fs::write(&file, config).expect("the configuration is written");
        let child = Command::new(env!("CARGO_BIN_EXE_gangliond"))
            .arg("--config")
            .arg(&file)
            .arg("--bus")
            .arg(address)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("gangliond starts");
        Self { child, folder }
    }

    /// Returns its configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("gangliond.toml")
    }

    /// Writes another configuration without a reload.
    pub(crate) fn configure(&self, config: &str) {
        fs::write(self.config(), config).expect("the configuration is written");
    }

    /// Returns the bytes of its anonymous memory.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        self.memory("RssAnon:")
    }

    /// Returns the peak of its memory in bytes.
    pub(crate) fn peak(&self) -> io::Result<u64> {
        self.memory("VmHWM:")
    }

    /// Waits until it is quiescent: all its threads sleep at each of several looks in a row.
    pub(crate) fn settle(&self) {
        const LOOKS: u32 = 20;
        let mut still = 0;
        while still < LOOKS {
            std::thread::sleep(Duration::from_millis(10));
            still = if self.sleeps() { still + 1 } else { 0 };
        }
    }

    fn sleeps(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let asleep = |task: io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            let (_, state) = stat.rsplit_once(") ")?;
            Some(state.starts_with('S'))
        };
        // A thread that ended in the meantime has run.
        tasks.map(asleep).all(|asleep| asleep == Some(true))
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn memory(&self, of: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix(of))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .and_then(|number| number.trim().parse::<u64>().ok());
        kilobytes
            .map(|kilobytes| kilobytes * 1024)
            .ok_or_else(|| io::Error::other(format!("no {of}")))
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
