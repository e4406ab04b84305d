//! The example programs of `tests/clients` that need few packages. `tests/clients/run.sh` runs all of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::daemon::eventually;
use crate::support::needs;
use crate::support::restartable::Restartable;

const VERBS: [&str; 5] = ["generate", "session", "cancel", "complete", "signals"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs each verb. The last one spans a restart of the daemon.
async fn run(program: &Path, argument: Option<PathBuf>) {
    let mut served = Restartable::new();
    served.start("kv.context = 512\n").await;
    let ctl = Path::new(env!("CARGO_BIN_EXE_ganglionctl"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", ctl.parent().expect("a folder").display());
    let restarted = served.folder.path().join("restarted");
    for verb in VERBS.into_iter().chain(["reconnect"]) {
        let mut child = Command::new(program)
            .args(&argument)
            .arg(verb)
            .env("DBUS_SYSTEM_BUS_ADDRESS", served.bus.text())
            .env("GANGLION_BUS", served.bus.text())
            .env("RESTARTED", &restarted)
            .env("PATH", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; make deps", program.display()));
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut output = Vec::new();
        while eventually(said.read_until(b'\n', &mut output))
            .await
            .expect("it is read")
            > 0
        {
            if output.ends_with(b"restart the daemon\n") {
                served.start("kv.context = 512\n").await;
                std::fs::write(&restarted, "").expect("it is written");
            }
        }
        let mut errors = String::new();
        let mut stderr = child.stderr.take().expect("it is piped");
        stderr
            .read_to_string(&mut errors)
            .await
            .expect("it is read");
        let status = eventually(child.wait()).await.expect("it ends");
        let output = String::from_utf8_lossy(&output);
        assert!(
            status.success(),
            "{} {verb}: {output}{errors}",
            program.display()
        );
        assert!(verb != "reconnect" || restarted.exists(), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_python_works() {
    if !needs::python() {
        return;
    }
    let client = root().join("tests/clients/python/client.py");
    run(&root().join("target/venv/bin/python"), Some(client)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_c_works() {
    if !needs::library("libsystemd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = folder.path().join("client");
    let script =
        "cc -Wall -Wextra -Werror \"$0\" $(pkg-config --cflags --libs libsystemd) -o \"$1\"";
    let compiled = Command::new("sh")
        .args(["-c", script])
        .arg(root().join("tests/clients/c/client.c"))
        .arg(&built)
        .output();
    let compiled = compiled.await.expect("sh runs");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    run(&built, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_works() {
    if !needs::programs(&["busctl"]) {
        return;
    }
    run(&root().join("tests/clients/shell/client.sh"), None).await;
}
