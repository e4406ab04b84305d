//! Programs with the package openai, as its users write them, against a daemon with a model: they get what they ask for, and
//! the tokens that D-Bus has.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

/// A daemon with HTTP on a socket.
struct Robot {
    bus: PrivateBus,
    folder: tempfile::TempDir,
    _daemon: Process,
}

impl Robot {
    /// Starts it with SmolLM2, and a chat template that has tools.
    async fn new() -> Self {
        let sources = sources().display().to_string();
        let config = format!(
            "backend = 'cpu'\nkv.context = 1024\n\
             model.path = '{sources}/target/models/SmolLM2-135M-Instruct.Q4_1.gguf'\n\
             model.chat_template = '{sources}/tests/clients/tools.jinja'\n\
             model.tool_formats = '{sources}/config/tools'\n"
        );
        let bus = PrivateBus::start();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("openai.sock");
        let socket = socket.to_str().expect("the path is UTF-8");
        let daemon = Process::serving_with(&bus, &["--http", socket], &config).await;
        Self {
            bus,
            folder,
            _daemon: daemon,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("openai.sock")
    }

    /// Runs a program that finds the daemon by the environment, and returns its output.
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> String {
        let done = Command::new(program.as_ref())
            .args(arguments)
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.bus.text())
            .env("GANGLION_SOCKET", self.socket())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output();
        let Output {
            status,
            stdout,
            stderr,
        } = done.expect("the program runs");
        let said = String::from_utf8_lossy(&stdout).into_owned();
        let why = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{arguments:?}: {said}{why}");
        said
    }
}

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python() -> PathBuf {
    sources().join("target/venv/bin/python")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_package_has_the_answers_of_the_bus() {
    if !(needs::openai() && needs::smollm2()) {
        return;
    }
    let robot = Robot::new().await;
    let script = |name: &str| {
        let script = sources().join("tests/clients/openai/python").join(name);
        script.to_str().expect("the path is UTF-8").to_owned()
    };
    for verb in ["chat", "stream", "async", "tools", "parse", "refuse"] {
        robot.run(python(), &[&script("sdk.py"), verb]);
    }
    for verb in ["chat", "stream", "tools", "parse", "refuse"] {
        robot.run(python(), &[&script("sdk.py"), "responses", verb]);
    }
    let said = robot.run(python(), &[&script("same.py")]);
    let compared = said
        .lines()
        .filter(|line| line.contains("tokens are the same"));
    assert!(compared.count() > 4, "{said}");
}

/// The lines of `ganglionctl openai` work as they are printed.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_lines_work() {
    if !(needs::openai() && needs::smollm2() && needs::programs(&["curl"])) {
        return;
    }
    let robot = Robot::new().await;
    let socket = robot.socket();
    let socket = socket.to_str().expect("the path is UTF-8");
    let ctl = env!("CARGO_BIN_EXE_ganglionctl");
    let said = robot.run(ctl, &["openai", "--socket", socket]);
    let section = |heading: &str| {
        let (_, rest) = said.split_once(heading).expect(heading);
        let lines = rest
            .lines()
            .skip(1)
            .map_while(|line| line.strip_prefix("  "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let python_said = robot.run(python(), &["-c", &section("\nPython ")]);
    assert!(!python_said.trim().is_empty());
    let curl_said = robot.run("sh", &["-c", &section("\nShell")]);
    assert!(curl_said.contains("\"finish_reason\""), "{curl_said}");
}
