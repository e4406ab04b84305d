//! `ganglionctl hold`: its command's exit code and signals, and the holds that other verbs show.

use std::time::Duration;

use ganglion::front::Config;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::{ctl, finish, run, run_as};
use crate::support::daemon::{Daemon, eventually, until};
use crate::support::needs;
use crate::support::private_bus::GROUPS;

/// Starts a hold whose command prints a line and runs until a signal. Returns it after the line.
async fn holding(bus: &str, all: bool, reason: &str) -> Child {
    let kind: &[&str] = if all { &["--all"] } else { &[] };
    let script = "trap 'exit 9' TERM; trap 'exit 8' INT; echo runs; while :; do sleep 0.01; done";
    let command = ["--reason", reason, "--", "sh", "-c", script];
    let mut held = ctl(&[&["--bus", bus, "hold"], kind, &command].concat())
        .spawn()
        .expect("ganglionctl runs");
    let stdout = held.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    let line = eventually(lines.next_line()).await.expect("it writes");
    assert_eq!(line.as_deref(), Some("runs"));
    held
}

fn send(child: &Child, signal: Signal) {
    let process = child.id().and_then(|id| i32::try_from(id).ok());
    kill(Pid::from_raw(process.expect("it runs")), signal).expect("it runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ends_with_its_command_and_has_its_exit_code() {
    let daemon = Daemon::start("").await;
    let bus = daemon.bus.text();
    for (command, code, said) in [
        (&["sh", "-c", "echo done"][..], 0, ""),
        (&["sh", "-c", "exit 7"], 7, ""),
        (&["sh", "-c", "kill -KILL $$"], 137, ""),
        (&["no-such-command"], 127, "no-such-command"),
        (&["/dev/null"], 126, "/dev/null"),
    ] {
        let verb = ["--bus", bus, "hold", "--all", "--reason", "a test", "--"];
        let held = run(&[&verb, command].concat()).await;
        assert_eq!(held.code, Some(code), "{command:?}: {held:?}");
        assert!(held.stderr.contains(said), "{command:?}: {held:?}");
        assert_eq!(held.stderr.is_empty(), said.is_empty(), "{held:?}");
        until(async || daemon.engine.holds().is_empty()).await;
    }
    for (signal, code) in [(Signal::SIGTERM, 9), (Signal::SIGINT, 8)] {
        let held = holding(bus, false, "a test").await;
        assert_eq!(daemon.engine.holds().len(), 1);
        send(&held, signal);
        let held = finish(held).await;
        assert_eq!(
            (held.code, held.stderr.as_str()),
            (Some(code), ""),
            "{signal}"
        );
    }
    let none = run(&["--bus", bus, "hold", "--reason", "a test"]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_ends_before_its_command_is_reported() {
    let config = Config {
        hold_longest: Duration::from_millis(200),
        ..Config::default()
    };
    let daemon = Daemon::with("", 8, config).await;
    let bus = daemon.bus.text();
    let verb = ["--bus", bus, "hold", "--reason", "a test", "--", "sh", "-c"];
    let wait = "until timeout 60 \"$0\" --bus \"$1\" status --json | grep -q '\"holds\": \\[\\]'; do sleep 0.01; done; exit 3";
    let command = [wait, env!("CARGO_BIN_EXE_ganglionctl"), bus];
    let held = run(&[&verb[..], &command].concat()).await;
    assert_eq!(held.code, Some(3), "{held:?}");
    let expected = "ganglionctl: the hold has ended: ";
    assert!(held.stderr.starts_with(expected), "{held:?}");
    assert!(held.stderr.contains("hold.max_seconds"), "{held:?}");
    assert!(held.stderr.contains("sh continues without it"), "{held:?}");
}

/// The command does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_hold_names_the_allowed_group() {
    if !needs::root() {
        return;
    }
    let daemon = Daemon::start("").await;
    let [(_, _, member), _] = GROUPS;
    for (kind, why) in [
        (&[][..], "usermod -aG ganglion"),
        (&["--all"], "limits.realtime_group"),
    ] {
        let verb = ["--bus", daemon.bus.text(), "hold", "--reason", "a test"];
        let command = ["--", "echo", "it runs"];
        let held = run_as(member, &[&verb, kind, &command].concat()).await;
        assert_eq!((held.code, &*held.stdout), (Some(77), ""), "{held:?}");
        assert!(held.stderr.contains(why), "{held:?}");
    }
}

/// Holds are shown with owner and reason; `ask` names only those that delay its own request.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_shown_with_its_owner_and_its_reason() {
    let daemon = Daemon::start("").await;
    let bus = daemon.bus.text();
    let user = User::from_uid(geteuid()).ok().flatten();
    let user = user.map_or_else(|| geteuid().to_string(), |user| user.name);
    let held = holding(bus, false, "the arm moves").await;

    let json = run(&["--bus", bus, "status", "--json"]).await;
    let status: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    let shown = &status["holds"][0];
    assert_eq!(shown["held"], "background");
    assert_eq!(shown["user"], geteuid().as_raw());
    assert_eq!(shown["reason"], "the arm moves");
    let table = run(&["--bus", bus, "status"]).await.stdout;
    let row = table.lines().find(|line| line.starts_with("hold "));
    let row = row.expect("a row").to_owned();
    assert!(row.contains(&format!("background by {user} (:")), "{row}");
    assert!(row.ends_with("s more: the arm moves"), "{row}");
    let top = run(&["--bus", bus, "top", "--once", "--interval", "0.1"]).await;
    let line = format!(" held=background held_by=\"{user}\" held_for=\"the arm moves\" ");
    assert!(top.stdout.contains(&line), "{top:?}");

    let now = run(&["--bus", bus, "ask", "one"]).await;
    assert_eq!(now.code, Some(0), "{now:?}");
    assert!(!now.stderr.contains("the arm moves"), "{now:?}");
    let mut waits = ctl(&["--bus", bus, "ask", "--priority", "background", "one"])
        .spawn()
        .expect("ganglionctl runs");
    let stderr = waits.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines();
    let line = eventually(lines.next_line()).await.expect("it writes");
    let line = line.expect("what it waits for");
    let expected = format!("ganglionctl: {user} holds background requests, for at most ");
    assert!(line.starts_with(&expected), "{line}");
    assert!(line.ends_with(" s more: the arm moves"), "{line}");
    send(&held, Signal::SIGTERM);
    assert_eq!(finish(held).await.code, Some(9));
    assert_eq!(finish(waits).await.stdout, "sim: one\n");
}
