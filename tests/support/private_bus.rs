//! A private message bus with the system bus's defaults and the project's policy file.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use ganglion::bus::{Address, NAME};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zbus::Connection;

/// Groups that every Debian has, in place of the package's groups: name in the policy, name, number. The second has the
/// lower number, so that the order of the bus's rules does not matter.
pub(crate) const GROUPS: [(&str, &str, u32); 2] =
    [("ganglion", "users", 100), ("ganglion-admin", "games", 60)];
/// The replacement of the daemon's user, in the same form.
pub(crate) const USER: (&str, &str, u32) = ("ganglion", "news", 9);

/// A running `dbus-daemon`, until it is dropped.
pub(crate) struct PrivateBus {
    daemon: Child,
    /// Without the part that differs between two `dbus-daemon` processes at the same place.
    address: String,
    folder: tempfile::TempDir,
}

impl PrivateBus {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("bus.conf");
        fs::write(folder.path().join("policy.conf"), policy()).expect("the policy is copied");
        let text = include_str!("bus.conf")
            .replace("@FOLDER@", &folder.path().display().to_string())
            .replace("@USER@", &nix::unistd::getuid().to_string());
        fs::write(&config, text).expect("the configuration is written");
        let (daemon, address) = launch(folder.path());
        open_to_others(folder.path()).expect("other users may connect");
        Self {
            daemon,
            address,
            folder,
        }
    }

    /// Ends it with all its connections, and starts another at the same address.
    pub(crate) fn restart(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        (self.daemon, _) = launch(self.folder.path());
    }

    /// Returns the path of its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    pub(crate) fn text(&self) -> &str {
        &self.address
    }

    pub(crate) fn address(&self) -> Address {
        Address::Other(self.address.clone())
    }

    /// Makes a call to the daemon's name start gangliond with these arguments in addition to `--bus`.
    pub(crate) fn activates(&self, arguments: &str) {
        let gangliond = env!("CARGO_BIN_EXE_gangliond");
        let service = format!(
            "[D-BUS Service]\nName={NAME}\nExec={gangliond} --bus {} {arguments}\n",
            self.address
        );
        fs::write(self.folder.path().join(format!("{NAME}.service")), service)
            .expect("the service file is written");
    }

    /// Sends a signal to it; after SIGSTOP it answers no call until SIGCONT.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.daemon.id().try_into().expect("a process id"));
        kill(process, signal).expect("it can be signalled");
    }

    /// Connects a new client.
    pub(crate) async fn connect(&self) -> Connection {
        self.address()
            .connect()
            .await
            .expect("the bus takes a connection")
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Starts it with the configuration in that folder, and returns its address.
fn launch(folder: &Path) -> (Child, String) {
    let log = folder.join("bus.log");
    let mut daemon = Command::new("dbus-daemon")
        .arg("--nofork")
        .arg("--nopidfile")
        .arg("--print-address")
        .arg(format!(
            "--config-file={}",
            folder.join("bus.conf").display()
        ))
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&log).expect("the log is made"))
        .spawn()
        .expect("dbus-daemon runs: make deps installs it");
    let printed = daemon.stdout.take().expect("it is piped");
    let mut address = String::new();
    BufReader::new(printed)
        .read_line(&mut address)
        .expect("it prints its address");
    let address = address.trim().split(",guid=").next().unwrap_or_default();
    assert!(
        !address.is_empty(),
        "{}",
        fs::read_to_string(&log).unwrap_or_default()
    );
    (daemon, address.to_owned())
}

/// Returns the project's policy. Users and groups of the package are replaced by existing ones.
fn policy() -> String {
    let mut policy = include_str!("../../config/org.ganglion.Llm1.conf").to_owned();
    let mut replace = |kind: &str, (named, known, _): (&str, &str, u32)| {
        let whose = |name: &str| format!("<policy {kind}=\"{name}\">");
        assert!(
            policy.contains(&whose(named)),
            "the policy has a {kind} {named}"
        );
        policy = policy.replace(&whose(named), &whose(known));
    };
    GROUPS.into_iter().for_each(|group| replace("group", group));
    replace("user", USER);
    policy
}

fn open_to_others(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}
