//! Start, readiness and an orderly stop.

use ganglion::bus::Error;
use ganglion::telemetry::FinishReason;
use nix::sys::signal::Signal;

use super::gangliond::{End, Gangliond, ask, client};
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn systemd_gets_the_states_in_order() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "load=1s", "");
    let mut before = daemon.await_notification("READY=1").await;
    before.retain(|message| !message.starts_with("EXTEND_TIMEOUT_USEC="));
    assert_eq!(
        before,
        ["STATUS=loading"],
        "the load's state comes before readiness"
    );
    let manager = client(&bus).await;
    assert_eq!(manager.state().await.unwrap(), "ready");
    daemon.await_notification("STATUS=ready").await;
    Reader::new(ask(&manager, "one two").await.unwrap())
        .answer()
        .await;
    let receipt = daemon.next_notification().await;
    assert!(
        receipt.starts_with("STATUS=ready; last request: "),
        "{receipt}"
    );

    daemon.signal(Signal::SIGTERM);
    let stopping = daemon.next_notification().await;
    // stop.grace_seconds, kv.stop_seconds, and the time of the remaining steps.
    assert_eq!(stopping, "STOPPING=1\nEXTEND_TIMEOUT_USEC=18000000");
    let end = daemon.end().await;
    assert_eq!(end.status, Some(0), "{}", end.journal);
    assert!(end.journal.ends_with("info: stopped\n"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_a_running_answer_end_and_accepts_no_other() {
    let bus = PrivateBus::start();
    let config = "[stop]\ngrace_seconds = 3600\n";
    let daemon = Gangliond::scripted(&bus, "delay=50ms,tokens=50", config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let mut running = Reader::new(ask(&manager, "count").await.unwrap());
    running.next().await.expect("a first token");

    daemon.signal(Signal::SIGTERM);
    daemon.await_notification("STOPPING=1").await;
    daemon.await_notification("STATUS=stopping").await;
    let refused = ask(&manager, "one more").await;
    assert!(matches!(refused, Err(Error::NotReady(_))), "{refused:?}");
    let answer = running.answer().await;
    assert_ne!(answer.reason, FinishReason::Cancelled);
    assert_eq!(answer.usage.completion_tokens, 50);
    assert_eq!(daemon.end().await.status, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_outlasts_its_grace_is_cancelled_and_still_ends_its_stream() {
    let bus = PrivateBus::start();
    let config = "[stop]\ngrace_seconds = 0.05\n";
    let daemon = Gangliond::scripted(&bus, "delay=3600s,tokens=9", config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let mut running = Reader::new(ask(&manager, "count").await.unwrap());
    running.next().await.expect("a first token");
    let waiting = Reader::new(ask(&manager, "and another").await.unwrap());

    daemon.signal(Signal::SIGINT);
    assert_eq!(running.answer().await.reason, FinishReason::Cancelled);
    assert_eq!(waiting.answer().await.reason, FinishReason::Cancelled);
    assert_eq!(daemon.end().await.status, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_during_the_load_still_answers_accepted_requests() {
    let bus = PrivateBus::start();
    let config = "[stop]\ngrace_seconds = 3600\n";
    let daemon = Gangliond::scripted(&bus, "load=2s", config);
    daemon.await_notification("STATUS=loading").await;
    let manager = client(&bus).await;
    let waiting = Reader::new(ask(&manager, "one two").await.unwrap());
    daemon.signal(Signal::SIGTERM);
    daemon.await_notification("STOPPING=1").await;
    assert_eq!(waiting.answer().await.reason, FinishReason::Stop);
    let end = daemon.end().await;
    assert_eq!(end.status, Some(0));
    assert!(!end.journal.contains("is ready\n"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_cannot_delay_the_stop() {
    let bus = PrivateBus::start();
    let config = "[stream]\nstall_seconds = 3600\n[limits]\nmax_tokens = 100000\n\
                  [sampling]\nmax_tokens = 100000\n";
    let daemon = Gangliond::scripted(&bus, "tokens=100000,context=1000000", config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let unread = ask(&manager, "much").await.unwrap();
    daemon
        .await_notification("STATUS=ready; last request: ")
        .await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().await.status, Some(0));
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_reported_with_its_backtrace_and_ends_with_70() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "tokens=9,panic_after=2", "");
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let running = Reader::new(ask(&manager, "count").await.unwrap());
    assert_eq!(running.answer().await.reason, FinishReason::Error);
    let End {
        status, journal, ..
    } = daemon.end().await;
    assert_eq!(status, Some(70), "{journal}");
    let (place, text) = (
        "thread engine panicked at src/engine/sim/",
        "a panic of the script's",
    );
    assert!(
        journal.contains(place) && journal.contains(text),
        "{journal}"
    );
    assert!(journal.contains("\n   0: "), "a backtrace: {journal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_it_stops_still_ends_with_70() {
    let bus = PrivateBus::start();
    let config = "[stop]\ngrace_seconds = 3600\n";
    let daemon = Gangliond::scripted(&bus, "tokens=9,delay=300ms,panic_after=6", config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let mut running = Reader::new(ask(&manager, "count").await.unwrap());
    running.next().await.expect("a first token");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(running.answer().await.reason, FinishReason::Error);
    let End {
        status, journal, ..
    } = daemon.end().await;
    assert_eq!(status, Some(70), "{journal}");
    assert!(journal.contains("info: stopping"), "{journal}");
    assert!(!journal.contains("info: stopped"), "{journal}");
}

/// After a sticky driver error no request can run in this process: waiting callers get an error, and systemd restarts
/// the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_ends_its_requests_and_then_the_process_with_70() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "tokens=9,delay=20ms,lost_after=3", "");
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let running = Reader::new(ask(&manager, "count").await.unwrap());
    let waiting = ask(&manager, "and another").await;
    let answer = running.answer().await;
    assert_eq!(answer.reason, FinishReason::Error);
    assert_eq!(answer.usage.completion_tokens, 3);
    // A late request gets the error at once.
    if let Ok(waiting) = waiting {
        let never_begun = Reader::new(waiting).answer().await;
        assert_eq!(never_begun.reason, FinishReason::Error);
    }
    let end = daemon.end().await;
    assert_eq!(end.status, Some(70), "{}", end.journal);
    assert!(
        end.journal.contains("the device is lost"),
        "{}",
        end.journal
    );
}
