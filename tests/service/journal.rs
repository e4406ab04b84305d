//! The journal of a running daemon, which delays no request if it is not read.

use std::collections::HashMap;

use futures_util::future::join_all;
use ganglion::bus::proxy::{Fields, ManagerProxy, RequestProxy, SessionProxy};
use ganglion::telemetry::FinishReason;
use nix::sys::signal::Signal;
use tokio::io::AsyncBufReadExt as _;
use zbus::Variant;

use super::gangliond::{End, Gangliond, ask, client};
use crate::support::daemon::{eventually, until};
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;
use crate::support::tiny_gguf;

/// Texts that must not appear in any line.
const SENTINEL: &str = "cormorant";

fn with<'a>(name: &'a str, value: Variant<'a>) -> Fields<'a> {
    HashMap::from([(name, value)])
}

/// Sends the text by every method that takes one, and in every request that is refused for one.
async fn say_it_everywhere(bus: &PrivateBus, manager: &ManagerProxy<'_>) {
    let answer = Reader::new(ask(manager, SENTINEL).await.unwrap());
    let answer = answer.answer().await;
    assert!(
        answer.text.contains(SENTINEL),
        "the answer repeats the question"
    );
    let (answer, _) = manager.complete(SENTINEL, HashMap::new()).await.unwrap();
    assert!(answer.contains(SENTINEL));

    let session = manager
        .open_session(with("system", SENTINEL.into()))
        .await
        .unwrap();
    let connection = manager.inner().connection();
    let session = SessionProxy::new(connection, session).await.unwrap();
    let stop = with("stop", SENTINEL.into());
    let (_, stream) = session.send(SENTINEL, stop).await.unwrap();
    Reader::new(stream).answer().await;
    assert!(!session.history().await.unwrap().is_empty());

    let none = HashMap::new();
    let too_long = format!("{SENTINEL} ").repeat(200_000);
    let content = |text: &'static str| HashMap::from([("content", Variant::from(text))]);
    assert!(
        manager
            .complete(SENTINEL, with(SENTINEL, 1u32.into()))
            .await
            .is_err()
    );
    assert!(
        manager
            .complete(SENTINEL, with("stream", SENTINEL.into()))
            .await
            .is_err()
    );
    assert!(manager.complete(&too_long, none.clone()).await.is_err());
    for message in [
        // An unknown role, no question at the end, an unknown field.
        (SENTINEL, content(SENTINEL)),
        ("assistant", content(SENTINEL)),
        ("user", with(SENTINEL, SENTINEL.into())),
    ] {
        let refused = manager.generate(&[message], none.clone()).await;
        refused.expect_err("the message is refused");
    }
    // A call with wrong types, and an unknown call.
    let inner = manager.inner();
    assert!(inner.call_method("Complete", &(SENTINEL,)).await.is_err());
    assert!(inner.call_method("Cormorant", &(SENTINEL,)).await.is_err());

    // A caller that leaves during its request.
    let leaver = client(bus).await;
    let stream = ask(&leaver, SENTINEL).await.unwrap();
    leaver.inner().connection().clone().close().await.unwrap();
    drop(stream);
}

/// The journal with N in place of each request's random number.
fn unnumbered(journal: &str) -> String {
    let mut parts = journal.split("request ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |written, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() { "N" } else { "" };
        written + "request " + number + rest
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_holds_no_prompts_and_no_answers() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "", "log.level = 'trace'\n");
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    say_it_everywhere(&bus, &manager).await;
    until(async || manager.queue_length().await.unwrap() == 0).await;
    daemon.signal(Signal::SIGTERM);
    let End {
        journal, output, ..
    } = daemon.end().await;
    let journal = unnumbered(&journal);
    assert!(journal.contains("request N: "), "{journal}");
    let found = |text: &str| text.to_lowercase().contains(SENTINEL);
    assert!(!found(&journal) && !found(&output), "{journal}");

    // Nor when the request itself fails.
    let daemon = Gangliond::scripted(&bus, "tokens=9,fail_after=1", "log.level = 'trace'\n");
    daemon.await_notification("READY=1").await;
    let failed = Reader::new(ask(&manager, SENTINEL).await.unwrap());
    assert_eq!(failed.answer().await.reason, FinishReason::Error);
    daemon.signal(Signal::SIGTERM);
    let End { journal, .. } = daemon.end().await;
    let journal = unnumbered(&journal);
    assert!(journal.contains("request N failed: "), "{journal}");
    assert!(!found(&journal), "{journal}");
}

/// With a real vocabulary and at every level: the level's own events appear, and no prompt.
#[tokio::test(flavor = "multi_thread")]
async fn the_detailed_levels_report_turns_slots_and_updates_and_no_prompt() {
    const TURN: &str = "debug: request N of user ";
    const CHANGE: &str =
        "debug: the key-value cache changed (epoch 1): new_turn; the decode graph is ";
    const READ: &str = "trace: request N of user ";
    const RENEWED: &str = "trace: segment 0 of the decode graph: ";
    let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().unwrap());
    let model = folder.path().join("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).unwrap();
    for (level, present, absent) in [
        ("trace", &[TURN, CHANGE, READ, RENEWED][..], &[][..]),
        ("debug", &[TURN, CHANGE], &["trace:"]),
        ("info", &["info: request N: "], &["debug:", "trace:"]),
    ] {
        let config = format!(
            "backend = 'cpu'\nlog.level = '{level}'\nmodel.path = '{}'\nkv.context = 256\n",
            model.display()
        );
        let daemon = Gangliond::start(bus.text(), &[], &config);
        daemon.await_notification("READY=1").await;
        let manager = client(&bus).await;
        let answer = Reader::new(ask(&manager, SENTINEL).await.unwrap());
        assert_eq!(answer.answer().await.error, None);
        daemon.signal(Signal::SIGTERM);
        let End { journal, .. } = daemon.end().await;
        let journal = unnumbered(&journal);
        for start in present {
            assert!(
                journal.lines().any(|line| line.starts_with(start)),
                "{start}: {journal}"
            );
        }
        for start in absent {
            assert!(
                !journal.lines().any(|line| line.starts_with(start)),
                "{start}: {journal}"
            );
        }
        assert!(!journal.to_lowercase().contains(SENTINEL), "{journal}");
    }
}

/// Makes the daemon report `count` events without a caller's rate.
async fn reload_often(manager: &ManagerProxy<'_>, count: usize) {
    for _ in 0..count {
        eventually(manager.reload()).await.unwrap();
    }
}

/// Sends `count` requests and reads every answer.
async fn ask_often(manager: &ManagerProxy<'_>, count: usize) {
    const AT_ONCE: usize = 50;
    for _ in 0..count.div_ceil(AT_ONCE) {
        let answers = join_all((0..AT_ONCE).map(async |_| {
            let stream = ask(manager, "hello").await.unwrap();
            Reader::new(stream).answer().await
        }));
        for answer in eventually(answers).await {
            assert_eq!(answer.error, None);
        }
    }
}

const RELOADED: &str = "info: the configuration was read again";

/// Room for the requests of one user.
const ROOM: &str = "queue.capacity = 100\n[limits]\nqueue_percent_per_user = 100\n";

/// Standard error is the journal: it is full and not read.
#[tokio::test(flavor = "multi_thread")]
async fn an_unread_journal_delays_no_request_and_no_stop() {
    let bus = PrivateBus::start();
    let mut daemon = Gangliond::scripted(&bus, "tokens=1", ROOM);
    let unread = daemon.narrow_journal();
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    reload_often(&manager, 200).await;
    ask_often(&manager, 200).await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().await.status, Some(0));
    let mut lines = unread.lines();
    let mut written = 0;
    while eventually(lines.next_line()).await.unwrap().is_some() {
        written += 1;
    }
    assert!(
        (1..200).contains(&written),
        "{written} lines: the pipe was full"
    );
}

/// After a late read, the journal reports the number of lost events, and continues.
#[tokio::test(flavor = "multi_thread")]
async fn lost_events_are_counted() {
    /// More than the queue holds.
    const ALL: usize = 4500;
    let bus = PrivateBus::start();
    let mut daemon = Gangliond::scripted(&bus, "tokens=1", ROOM);
    let journal = daemon.narrow_journal();
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    reload_often(&manager, ALL).await;
    let mut lines = journal.lines();
    let (mut written, mut lost) = (0, 0);
    // Every event is reported or counted before the daemon ends, which would not wait for the rest.
    while written + lost < ALL {
        let line = eventually(lines.next_line()).await.unwrap();
        let line = line.expect("it goes on");
        written += usize::from(line.starts_with(RELOADED));
        let count = line.strip_prefix("warn: the journal did not take events in time; lost: ");
        lost += count.map_or(0, |count| count.parse().expect("a number"));
    }
    assert!(
        lost > 0 && written + lost == ALL,
        "{written} written, {lost} lost"
    );
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().await.status, Some(0));
}

/// A user with endless cancelled requests does not fill the journal; omitted events are counted.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_one_user_are_limited_by_a_rate() {
    const REQUESTS: usize = 600;
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "tokens=1", ROOM);
    daemon.await_notification("READY=1").await;
    let began = std::time::Instant::now();
    ask_often(&client(&bus).await, REQUESTS).await;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    daemon.signal(Signal::SIGTERM);
    let End { journal, .. } = daemon.end().await;
    let written = journal
        .lines()
        .filter(|line| line.starts_with("info: request "));
    let written = written.count();
    // A burst, and one more for each second.
    assert!(
        (40..=41 + seconds).contains(&written),
        "{written} in {seconds} s: {journal}"
    );
    let user = nix::unistd::getuid();
    let summary =
        format!("info: user {user} caused more events than the journal takes; left out: ");
    let left_out = journal
        .lines()
        .filter_map(|line| line.strip_prefix(&summary));
    let left_out = left_out.map(|kinds| {
        let number = kinds.strip_prefix("request_finished ").expect("its kind");
        number.parse::<usize>().expect("a number")
    });
    assert_eq!(left_out.sum::<usize>() + written, REQUESTS, "{journal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reached_limits_and_stalled_readers_are_reported() {
    let bus = PrivateBus::start();
    let config = "stream.stall_seconds = 0.3\n[limits]\nsessions_per_user = 1\nmax_tokens = 100000\n\
                  [sampling]\nmax_tokens = 100000\n";
    let daemon = Gangliond::scripted(&bus, "tokens=100000,context=1000000", config);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    manager.open_session(HashMap::new()).await.unwrap();
    for _ in 0..10 {
        manager.open_session(HashMap::new()).await.unwrap_err();
    }
    let message = HashMap::from([("content", "much".into())]);
    let (request, unread) = manager
        .generate(&[("user", message)], HashMap::new())
        .await
        .unwrap();
    let request = RequestProxy::new(manager.inner().connection(), request);
    let request = request.await.unwrap();
    until(async || request.result().await.unwrap().contains_key("message")).await;
    drop(unread);
    daemon.signal(Signal::SIGTERM);
    let End { journal, .. } = daemon.end().await;
    let journal = unnumbered(&journal);
    let user = nix::unistd::getuid();
    let lines_with = |start: &str| -> Vec<_> {
        let lines = journal.lines().filter(|line| line.starts_with(start));
        lines.collect()
    };
    let limit = lines_with(&format!("warn: user {user} ("));
    let [limit] = *limit else {
        panic!("once a minute: {journal}")
    };
    let expected = "has reached limits.sessions_per_user; refused: 1";
    assert!(limit.ends_with(expected), "{limit}");
    let slow = lines_with("warn: request N is cancelled: its reader (");
    let [slow] = *slow else {
        panic!("once: {journal}")
    };
    let expected = format!(", user {user}) has not read for 0.3 s");
    assert!(slow.ends_with(&expected), "{slow}");
}
