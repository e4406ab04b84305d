//! What stands still is named and no longer fed; what gets on is left alone.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::gangliond::{Gangliond, ask, client};
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;

/// Short enough to wait for, and long enough not to pass for want of a processor alone.
const STALL: &str = "[watchdog]\nstall_seconds = 1\n";
const FED: &str = "WATCHDOG=1";
const SOME_FEEDS: usize = 5;

/// With systemd's watchdog on, which waits for `micros`.
fn watched(bus: &PrivateBus, script: &str, config: &str, micros: &str) -> Gangliond {
    let period = (OsString::from("WATCHDOG_USEC"), micros.into());
    Gangliond::start_in(
        bus.text(),
        &["--sim", script],
        config,
        HashMap::from([period]),
    )
}

/// It is not fed any more: the time in which it would have been, several times over, passes without.
async fn is_not_fed(daemon: &Gangliond) {
    daemon.told_since().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = daemon.told_since().await;
    assert!(!told.iter().any(|message| message == FED), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_waits_for_work_or_works_is_fed() {
    let bus = PrivateBus::start();
    let daemon = watched(&bus, "tokens=1000,delay=5ms", "", "400000");
    daemon.told("READY=1").await;
    for _ in 0..SOME_FEEDS {
        daemon.told(FED).await;
    }
    let manager = client(&bus).await;
    let running = Reader::new(ask(&manager, "count").await.unwrap());
    for _ in 0..SOME_FEEDS {
        daemon.told(FED).await;
    }
    drop(running);
    daemon.signal(Signal::SIGTERM);
    let end = daemon.end().await;
    assert_eq!(end.status, Some(0));
    assert!(!end.journal.contains("stood still"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_engine_is_named_with_its_threads_and_no_longer_fed() {
    let bus = PrivateBus::start();
    let mut daemon = watched(&bus, "tokens=9,freeze_after=3", STALL, "400000");
    daemon.told("READY=1").await;
    daemon.told(FED).await;
    let manager = client(&bus).await;
    let running = ask(&manager, "count").await.unwrap();
    let named = daemon.said("the engine has stood still").await;
    assert!(named.contains("(making tokens)"), "{named}");
    daemon.said("engine (").await;
    is_not_fed(&daemon).await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_reactor_is_named_and_no_longer_fed() {
    let bus = PrivateBus::start();
    let script = "tokens=9,freeze_reactor_after=3";
    let mut daemon = watched(&bus, script, STALL, "400000");
    daemon.told("READY=1").await;
    daemon.told(FED).await;
    let manager = client(&bus).await;
    let running = ask(&manager, "count").await;
    daemon.said("the reactor has stood still").await;
    is_not_fed(&daemon).await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_does_not_answer_is_named_until_it_does() {
    let bus = PrivateBus::start();
    let mut daemon = watched(&bus, "", STALL, "400000");
    daemon.told("READY=1").await;
    daemon.told(FED).await;
    bus.signal(Signal::SIGSTOP);
    daemon.said("the bus has stood still").await;
    is_not_fed(&daemon).await;
    bus.signal(Signal::SIGCONT);
    daemon.said("the bus goes on").await;
    daemon.told(FED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watchdog_that_is_not_there_or_is_anothers_is_not_fed() {
    let bus = PrivateBus::start();
    let environment = [("WATCHDOG_USEC", "40000"), ("WATCHDOG_PID", "1")];
    let environment = environment.map(|(key, value)| (key.into(), value.into()));
    let daemon = Gangliond::start_in(bus.text(), &["--sim"], "", environment.into());
    let mut told = daemon.told("READY=1").await;
    let manager = client(&bus).await;
    let stream = ask(&manager, "one").await.unwrap();
    Reader::new(stream).answer().await;
    daemon.signal(Signal::SIGTERM);
    told.extend(daemon.told("STOPPING=1").await);
    assert!(!told.iter().any(|message| message == FED), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_gets_on_is_given_more_time() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "load=3s", "[watchdog]\nstall_seconds = 40\n");
    let told = daemon.told("READY=1").await;
    let extended = |message: &&String| *message == "EXTEND_TIMEOUT_USEC=60000000";
    assert!(told.iter().filter(extended).count() >= 2, "{told:?}");
}

/// systemd then ends it: nothing more is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_stuck_is_named_and_given_no_more_time() {
    let bus = PrivateBus::start();
    let script = "load=3600s,freeze_load=50ms";
    let mut daemon = watched(&bus, script, STALL, "400000");
    let named = daemon.said("the engine has stood still").await;
    assert!(named.contains("(reading weights)"), "{named}");
    daemon.told_since().await;
    // Twice as long as it takes to look again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = daemon.told_since().await;
    assert!(
        !told.iter().any(|message| message.contains("EXTEND")),
        "{told:?}"
    );
    // As systemd does once the start has timed out: it still ends in order.
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().await.status, Some(0));
}
