//! Clients in another language, over a D-Bus library that this project did not choose its own by.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::daemon::{Daemon, eventually};
use crate::support::needs;

/// Runs `tests/clients/NAME.py` against the daemon.
async fn run(daemon: &Daemon, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing: make deps",
        python.display()
    );
    let output = Command::new(python)
        .arg(root.join(format!("tests/clients/{name}.py")))
        .arg(daemon.bus.text())
        .stdin(Stdio::null())
        .output();
    let output = eventually(output).await.expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_streams_cancels_and_converses() {
    if !needs::python() {
        return;
    }
    let daemon = Daemon::start("tokens=200,delay=5ms").await;
    run(&daemon, "converse").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_python_clients_at_once() {
    if !needs::python() {
        return;
    }
    let daemon = Daemon::start("tokens=50").await;
    run(&daemon, "eight").await;
}
