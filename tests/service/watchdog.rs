//! The watchdog: a stalled part of the daemon is reported, and systemd's watchdog gets no more messages. A part that
//! makes progress is not reported.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;

use nix::sys::signal::Signal;

use super::gangliond::{Gangliond, ask, client};
use crate::support::daemon::until;
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;

/// Short enough to wait for, and long enough for a daemon that only lacks a processor.
const STALL: &str = "[watchdog]\nstall_seconds = 1\n";
const FED: &str = "WATCHDOG=1";
const SOME_FEEDS: usize = 5;
/// In milliseconds: the period of systemd's watchdog. The daemon's own thread looks four times as often.
const PERIOD: u32 = 400;
/// How many looks take longer than a second, which is how often a load asks for more time.
const LOOKS: u64 = 20;

/// Starts a daemon under systemd's watchdog.
fn watched(bus: &PrivateBus, script: &str, config: &str) -> Gangliond {
    let period = format!("{}", PERIOD * 1000);
    let period = (OsString::from("WATCHDOG_USEC"), period.into());
    Gangliond::start_in(
        bus.text(),
        &["--sim", script],
        config,
        HashMap::from([period]),
    )
}

/// Counts how often the watchdog's thread has looked at the other parts: it sleeps between two looks.
fn looks(daemon: &Gangliond) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.process())).expect("it runs");
    let looks = |status: String| {
        status.starts_with("Name:\twatchdog\n").then_some(())?;
        let mut lines = status.lines();
        let number = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        number.trim().parse().ok()
    };
    let mut statuses = tasks.flatten().map(|task| task.path().join("status"));
    statuses
        .find_map(|status| looks(fs::read_to_string(status).ok()?))
        .expect("a thread with this name")
}

/// Returns what systemd is sent while the watchdog looks a number of times.
async fn sent_during_looks(daemon: &Gangliond) -> Vec<String> {
    daemon.pending_notifications().await;
    let before = looks(daemon);
    until(async || looks(daemon) >= before + LOOKS).await;
    daemon.pending_notifications().await
}

async fn is_not_fed(daemon: &Gangliond) {
    let sent = sent_during_looks(daemon).await;
    assert!(!sent.iter().any(|message| message == FED), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_or_busy_daemon_feeds_the_watchdog() {
    let bus = PrivateBus::start();
    let daemon = watched(&bus, "tokens=1000,delay=5ms", "");
    daemon.await_notification("READY=1").await;
    for _ in 0..SOME_FEEDS {
        daemon.await_notification(FED).await;
    }
    let manager = client(&bus).await;
    let running = Reader::new(ask(&manager, "count").await.unwrap());
    for _ in 0..SOME_FEEDS {
        daemon.await_notification(FED).await;
    }
    drop(running);
    daemon.signal(Signal::SIGTERM);
    let end = daemon.end().await;
    assert_eq!(end.status, Some(0));
    assert!(!end.journal.contains("stood still"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_engine_is_reported_with_its_threads_and_no_longer_fed() {
    let bus = PrivateBus::start();
    let mut daemon = watched(&bus, "tokens=9,freeze_after=3", STALL);
    daemon.await_notification("READY=1").await;
    daemon.await_notification(FED).await;
    let manager = client(&bus).await;
    let running = ask(&manager, "count").await.unwrap();
    let named = daemon.await_line("the engine has stood still").await;
    assert!(named.contains("(making tokens)"), "{named}");
    daemon.await_line("engine (").await;
    is_not_fed(&daemon).await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_reactor_is_reported_and_no_longer_fed() {
    let bus = PrivateBus::start();
    let script = "tokens=9,freeze_reactor_after=3";
    let mut daemon = watched(&bus, script, STALL);
    daemon.await_notification("READY=1").await;
    daemon.await_notification(FED).await;
    let manager = client(&bus).await;
    let running = ask(&manager, "count").await;
    daemon.await_line("the reactor has stood still").await;
    is_not_fed(&daemon).await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_does_not_answer_is_reported_until_it_does() {
    let bus = PrivateBus::start();
    let mut daemon = watched(&bus, "", STALL);
    daemon.await_notification("READY=1").await;
    daemon.await_notification(FED).await;
    bus.signal(Signal::SIGSTOP);
    daemon.await_line("the bus has stood still").await;
    is_not_fed(&daemon).await;
    bus.signal(Signal::SIGCONT);
    daemon.await_line("the bus resumed after").await;
    daemon.await_notification(FED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watchdog_of_another_process_is_not_fed() {
    let bus = PrivateBus::start();
    let environment = [("WATCHDOG_USEC", "40000"), ("WATCHDOG_PID", "1")];
    let environment = environment.map(|(key, value)| (key.into(), value.into()));
    let daemon = Gangliond::start_in(bus.text(), &["--sim"], "", environment.into());
    let mut sent = daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let stream = ask(&manager, "one").await.unwrap();
    Reader::new(stream).answer().await;
    daemon.signal(Signal::SIGTERM);
    sent.extend(daemon.await_notification("STOPPING=1").await);
    assert!(!sent.iter().any(|message| message == FED), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_makes_progress_gets_more_time() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "load=3s", "[watchdog]\nstall_seconds = 40\n");
    let sent = daemon.await_notification("READY=1").await;
    let extended = |message: &&String| *message == "EXTEND_TIMEOUT_USEC=60000000";
    assert!(sent.iter().filter(extended).count() >= 2, "{sent:?}");
}

/// systemd then stops the daemon once the start has timed out, and the daemon still stops in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_stuck_is_reported_and_gets_no_more_time() {
    let bus = PrivateBus::start();
    let script = "load=3600s,freeze_load=50ms";
    let mut daemon = watched(&bus, script, STALL);
    let named = daemon.await_line("the engine has stood still").await;
    assert!(named.contains("(reading weights)"), "{named}");
    let sent = sent_during_looks(&daemon).await;
    assert!(
        !sent.iter().any(|message| message.contains("EXTEND")),
        "{sent:?}"
    );
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().await.status, Some(0));
}
