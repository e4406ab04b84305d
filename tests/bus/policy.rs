//! The policy file lets strangers look, and nothing else.

use std::process::{Command, Output};

use ganglion::bus::{NAME, PATH};

use crate::support::daemon::Daemon;

/// Calls as user nobody, who is in no group. Only root can become nobody.
fn as_nobody(address: &str, method: [&str; 2], arguments: &[&str]) -> Output {
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "busctl"])
        .arg(format!("--address={address}"))
        .args(["call", NAME, PATH])
        .args(method)
        .args(arguments)
        .output()
        .expect("setpriv and busctl run")
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_may_look_but_not_ask() {
    if !nix::unistd::getuid().is_root() {
        eprintln!("skipped: only root can call as another user");
        return;
    }
    let daemon = Daemon::start("").await;
    let address = daemon.bus.text().to_owned();
    let calls = tokio::task::spawn_blocking(move || {
        let manager = "org.ganglion.Llm1.Manager";
        let state = ["ss", manager, "State"];
        let look = as_nobody(&address, ["org.freedesktop.DBus.Properties", "Get"], &state);
        let prompt = ["sa{sv}", "hello", "0"];
        let ask = as_nobody(&address, [manager, "Complete"], &prompt);
        (look, ask)
    });
    let (look, ask) = calls.await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&look.stdout),
        "v s \"ready\"\n",
        "{look:?}"
    );
    assert!(!ask.status.success());
    let error = String::from_utf8_lossy(&ask.stderr);
    assert!(
        error.contains("denied") || error.contains("rejected"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_names_the_owner() {
    let daemon = Daemon::start("").await;
    let address = daemon.bus.address();
    let second = ganglion::bus::serve(&address, daemon.engine.clone()).await;
    let error = second.expect_err("the name is taken").to_string();
    let owner = format!("{NAME} is owned by process {}", std::process::id());
    assert!(error.starts_with(&owner), "{error}");
}
