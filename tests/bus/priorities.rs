//! Priorities, deadlines and holds of requests, and the information for waiting callers.

use ganglion::bus::proxy::{DiagnosticsProxy, Fields, Info};
use ganglion::bus::{Error, Frame};
use ganglion::front::Config;
use ganglion::telemetry::FinishReason;
use nix::unistd::{Group, getegid, geteuid};
use zbus::Variant;
use zbus::proxy::CacheProperties;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon, eventually, until};
use crate::support::stream::Reader;

/// Endless answers, until they are cancelled.
const ENDLESS: &str = "tokens=4000,delay=2ms";

/// A daemon that allows this process `realtime`.
async fn start(script: &str) -> Daemon {
    let group = Group::from_gid(getegid()).expect("groups are known");
    let config = Config {
        realtime_group: group.map(|group| group.name),
        ..Config::default()
    };
    Daemon::with(script, 8, config).await
}

fn of(priority: &str) -> Fields<'_> {
    fields([("priority", priority.into())])
}

async fn first(stream: &mut Reader) {
    let frame = stream.next().await;
    assert!(matches!(frame, Some(Frame::Text { .. })), "{frame:?}");
}

async fn work(client: &Client) -> Info {
    let diagnostics = DiagnosticsProxy::builder(&client.connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
        .expect("the proxy is built");
    diagnostics.work().await.expect("a dictionary")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_urgent_request_is_next_and_each_knows_its_position() {
    let daemon = start(ENDLESS).await;
    let client = daemon.client().await;
    let (running, stream) = ask(&client, "first", fields([])).await.unwrap();
    let running = client.request(running).await;
    // Closing the stream cancels the request.
    let mut answer = Reader::new(stream);
    first(&mut answer).await;
    let mut requests = Vec::new();
    for priority in ["background", "normal", "background", "realtime"] {
        let (path, stream) = ask(&client, priority, of(priority)).await.unwrap();
        requests.push((client.request(path).await, Reader::new(stream)));
    }
    let mut places = Vec::new();
    for (request, _) in &requests {
        places.push(request.queue_position().await.unwrap());
    }
    assert_eq!(places, [2, 1, 3, 0]);
    assert_eq!(running.queue_position().await.unwrap(), 0);
    let counts = work(&client).await;
    for (key, count) in [
        ("waiting", 4),
        ("waiting_realtime", 1),
        ("waiting_normal", 1),
        ("waiting_background", 2),
    ] {
        assert_eq!(*counts[key], Variant::U32(count), "{key}");
    }
    running.cancel().await.unwrap();
    for at in [3, 1, 0, 2] {
        let (request, stream) = &mut requests[at];
        first(stream).await;
        // The expected time is unknown until a turn has run to its end.
        let wait = request.estimated_wait().await.unwrap();
        assert!(wait.abs() < f64::EPSILON, "it is being answered: {wait}");
        request.cancel().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_answered_at_once() {
    let daemon = Daemon::start(&format!("{ENDLESS},rows=3")).await;
    let client = daemon.client().await;
    let mut streams = Vec::new();
    for question in ["a", "b", "c"] {
        let (_, stream) = ask(&client, question, fields([])).await.unwrap();
        streams.push(Reader::new(stream));
    }
    // All of them are running when the last one starts.
    for stream in &mut streams {
        first(stream).await;
    }
}

/// A waiting or running request ends, with the text so far.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_request_in_time() {
    let daemon = Daemon::start(ENDLESS).await;
    let client = daemon.client().await;
    let soon = || fields([("deadline_ms", Variant::U32(200))]);
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    let (_, stream) = session.send("runs", soon()).await.unwrap();
    let (_, waits) = ask(&client, "waits", soon()).await.unwrap();
    let ran = Reader::new(stream).answer().await;
    assert_eq!((ran.reason, ran.error), (FinishReason::Deadline, None));
    assert!(ran.text.starts_with("sim: runs"), "{}", ran.text);
    let waited = Reader::new(waits).answer().await;
    assert_eq!(
        (waited.reason, waited.error),
        (FinishReason::Deadline, None)
    );

    // A session continues from there.
    assert_eq!(session.turns().await.unwrap(), 1);
    let (_, partial) = session.messages().await.unwrap().pop().expect("an answer");
    assert_eq!(*partial["partial"], Variant::Bool(true));

    // A request that ends before its deadline is not affected.
    let late = fields([
        ("deadline_ms", Variant::U32(86_400_000)),
        ("max_tokens", Variant::U32(2)),
    ]);
    let (_, stream) = ask(&client, "ends", late).await.unwrap();
    assert_eq!(
        Reader::new(stream).answer().await.reason,
        FinishReason::Length
    );
    eventually(daemon.engine.idle()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn realtime_is_for_a_group_and_turns_have_their_sessions_priority() {
    let daemon = start(ENDLESS).await;
    let client = daemon.client().await;
    let opened = client.manager.open_session(of("realtime")).await.unwrap();
    let session = client.session(opened).await;
    let (_, stream) = ask(&client, "first", fields([])).await.unwrap();
    let mut answer = Reader::new(stream);
    first(&mut answer).await;
    let (normal, _stream) = ask(&client, "normal", fields([])).await.unwrap();
    let (turn, _turn) = session.send("urgent", fields([])).await.unwrap();
    assert_eq!(
        client.request(turn).await.queue_position().await.unwrap(),
        0
    );
    let normal = client.request(normal).await;
    until(async || normal.queue_position().await.unwrap() == 1).await;

    let wrong = ask(&client, "hello", of("urgent")).await;
    let Err(Error::InvalidOption(why)) = wrong else {
        panic!("{wrong:?}");
    };
    assert!(
        why.contains("\"realtime\", \"normal\" or \"background\""),
        "{why}"
    );
    // Members of other groups are refused; root is a member of every group.
    if !geteuid().is_root() {
        let daemon = Daemon::start("").await;
        let client = daemon.client().await;
        let refused = ask(&client, "hello", of("realtime")).await;
        let Err(Error::InvalidOption(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("limits.realtime_group"), "{why}");
        let refused = client.manager.hold_all("it may not").await;
        let Err(Error::NotSupported(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("limits.realtime_group"), "{why}");
    }
}

/// Background requests wait until the hold ends, in any way.
#[tokio::test(flavor = "multi_thread")]
async fn background_waits_while_it_is_held() {
    let daemon = start("tokens=2").await;
    let (client, another) = (daemon.client().await, daemon.client().await);
    for closes in [true, false] {
        let held = another.manager.hold("the arm moves").await.unwrap();
        let (path, stream) = ask(&client, "later", of("background")).await.unwrap();
        let later = client.request(path).await;
        let (_, now) = ask(&client, "now", of("normal")).await.unwrap();
        assert_eq!(Reader::new(now).answer().await.text, "sim: now");
        assert_eq!(later.state().await.unwrap(), "running");
        assert_eq!(later.queue_position().await.unwrap(), 1, "the hold counts");
        let wait = later.estimated_wait().await.unwrap();
        assert!(wait > 30.0, "hold.max_seconds is 60: {wait}");
        let holds = client.manager.holds().await.unwrap();
        assert_eq!(holds.len(), 1);
        let owner = another.connection.unique_name().expect("a name").as_str();
        for (key, value) in [
            ("held", Variant::from("background")),
            ("user", Variant::U32(geteuid().as_raw())),
            ("connection", Variant::from(owner)),
            ("reason", Variant::from("the arm moves")),
        ] {
            assert_eq!(*holds[0][key], value, "{key}");
        }
        let left = f64::try_from(holds[0]["seconds_left"].clone()).expect("seconds");
        assert!(left > 30.0 && left <= 60.0, "{left}");
        let counts = work(&client).await;
        assert_eq!(*counts["waiting_background"], Variant::U32(1));
        assert_eq!(
            format!("{:?}", *counts["holds"])
                .matches("the arm moves")
                .count(),
            1
        );
        if closes {
            drop(held);
        } else {
            another.connection.clone().close().await.unwrap();
        }
        assert_eq!(Reader::new(stream).answer().await.text, "sim: later");
        assert_eq!(later.queue_position().await.unwrap(), 0);
        assert!(client.manager.holds().await.unwrap().is_empty());
    }
}

/// Requests of all priorities wait, and the watchdog sees an idle engine.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_runs_while_all_are_held() {
    let daemon = start("tokens=2").await;
    let (client, another) = (daemon.client().await, daemon.client().await);
    let held = another
        .manager
        .hold_all("the battery is low")
        .await
        .unwrap();
    let (path, stream) = ask(&client, "urgent", of("realtime")).await.unwrap();
    let urgent = client.request(path).await;
    // The engine's thread is idle and had time to start the request.
    until(async || daemon.engine.progress().pulse().idle).await;
    let counts = work(&client).await;
    assert_eq!(*counts["held"], Variant::from("all"));
    assert_eq!(*counts["waiting_realtime"], Variant::U32(1));
    assert_eq!(urgent.queue_position().await.unwrap(), 1);
    assert!(urgent.estimated_wait().await.unwrap() > 30.0);
    drop(held);
    assert_eq!(Reader::new(stream).answer().await.text, "sim: urgent");
    until(async || *work(&client).await["held"] == Variant::from("")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ends_after_its_time() {
    let config = Config {
        hold_longest: std::time::Duration::from_millis(100),
        ..Config::default()
    };
    let daemon = Daemon::with("", 8, config).await;
    let client = daemon.client().await;
    let _held = client.manager.hold("for ever").await.unwrap();
    let (_, stream) = ask(&client, "later", of("background")).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, "sim: later");
    until(async || client.manager.hold("again").await.is_ok()).await;
}
