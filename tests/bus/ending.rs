//! Requests end when their caller cancels them or leaves. Other clients do not notice.

use std::time::Duration;

use futures_util::StreamExt;
use ganglion::bus::proxy::RequestProxy;
use ganglion::bus::{BusConfig, NAME, PATH};
use ganglion::engine::FinishReason;
use ganglion::front::Config;
use zbus::fdo::PropertiesProxy;
use zbus::{Message, Variant};

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon, Settings, eventually, until};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::signals::Signals;
use crate::support::stream::Reader;

/// A script without a first token.
const MUTE: &str = "first=3600s";

async fn finished(request: &RequestProxy<'_>) -> String {
    until(async || request.state().await.unwrap() == "finished").await;
    let result = request.result().await.unwrap();
    result["finish_reason"]
        .try_clone()
        .unwrap()
        .try_into()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_running_and_a_waiting_request() {
    let daemon = Daemon::start(MUTE).await;
    let client = daemon.client().await;
    let (running, running_stream) = ask(&client, "a", fields([])).await.unwrap();
    let (waiting, waiting_stream) = ask(&client, "b", fields([])).await.unwrap();
    client.request(waiting).await.cancel().await.unwrap();
    let answer = Reader::new(waiting_stream).answer().await;
    assert_eq!(answer.reason, FinishReason::Cancelled);
    assert_eq!(client.manager.queue_length().await.unwrap(), 1);

    let request = client.request(running).await;
    request.cancel().await.unwrap();
    let answer = Reader::new(running_stream).answer().await;
    assert_eq!(answer.reason, FinishReason::Cancelled);
    assert_eq!(client.manager.queue_length().await.unwrap(), 0);
    request
        .cancel()
        .await
        .expect("cancelling again does no harm");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_stream_ends_a_running_and_a_waiting_request() {
    let daemon = Daemon::start(MUTE).await;
    let client = daemon.client().await;
    let (running, running_stream) = ask(&client, "a", fields([])).await.unwrap();
    let (waiting, waiting_stream) = ask(&client, "b", fields([])).await.unwrap();
    drop(waiting_stream);
    let waiting = client.request(waiting).await;
    assert_eq!(finished(&waiting).await, "cancelled");
    assert_eq!(client.manager.queue_length().await.unwrap(), 1);
    drop(running_stream);
    let running = client.request(running).await;
    assert_eq!(finished(&running).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_requests_and_sessions() {
    let daemon = Daemon::start(MUTE).await;
    let watcher = daemon.client().await;
    let leaver = daemon.client().await;
    let session = leaver.manager.open_session(fields([])).await.unwrap();
    let session = leaver.session(session).await;
    let (_, first) = session.send("hello", fields([])).await.unwrap();
    let (_, second) = ask(&leaver, "again", fields([])).await.unwrap();
    assert_eq!(watcher.manager.sessions().await.unwrap(), 1);

    // The streams stay open: the lost connection is enough.
    leaver.connection.close().await.unwrap();
    for stream in [first, second] {
        let answer = Reader::new(stream).answer().await;
        assert_eq!(answer.reason, FinishReason::Cancelled);
    }
    until(async || watcher.manager.sessions().await.unwrap() == 0).await;
    assert_eq!(watcher.manager.queue_length().await.unwrap(), 0);
    until(async || !tree(&watcher).await.contains("<node name=\"session\"")).await;
    until(async || !tree(&watcher).await.contains("<node name=\"request\"")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_within_its_call_leaves_nothing_behind() {
    let bus = PrivateBus::start();
    let daemon = Process::start(&bus, MUTE, "").await;
    let watcher = Client::connect(&bus).await;
    for _ in 0..40 {
        let connection = bus.connect().await;
        let call = Message::method_call(PATH, "OpenSession")
            .destination(NAME)
            .interface("org.ganglion.Llm1.Manager")
            .build(&fields([]))
            .unwrap();
        connection.send(&call).await.unwrap();
        connection.close().await.unwrap();
    }
    // The bus delivers all calls before this one, but the daemon may handle them in any order.
    until(async || watcher.manager.sessions().await.unwrap() == 0).await;
    tokio::task::block_in_place(|| daemon.settle());
    assert_eq!(watcher.manager.sessions().await.unwrap(), 0);
    until(async || !tree(&watcher).await.contains("<node name=\"session\"")).await;
}

fn settings(stream_stall: Duration, max_tokens_limit: usize) -> Settings {
    Settings {
        bus: BusConfig {
            stream_stall,
            ..BusConfig::default()
        },
        front: Config {
            max_tokens_limit,
            ..Config::default()
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_is_cancelled_and_slows_no_other() {
    let config = settings(Duration::from_millis(400), 20_000);
    let daemon = Daemon::with("tokens=20000,context=40000,delay=1ms", 8, config).await;
    let (sleeper, other) = (daemon.client().await, daemon.client().await);
    let long = fields([("max_tokens", 20_000u32.into())]);
    let word = "w".repeat(2000);
    let mut signals = Signals::listen(&sleeper).await;
    let (path, unread) = ask(&sleeper, &word, long).await.unwrap();
    // The request waits behind the sleeper's, which the daemon must cancel first.
    let short = fields([("max_tokens", 5u32.into())]);
    let (_, stream) = ask(&other, "hello", short).await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.text, "sim: hello hello hello hello");

    let (reason, info) = signals.finished(&path).await;
    assert_eq!(reason, "cancelled");
    let message: &str = info["message"].downcast_ref().unwrap();
    assert!(message.contains("stream.stall_seconds"), "{message}");
    let tokens: u32 = info["completion_tokens"].downcast_ref().unwrap();
    assert!(tokens < 20_000, "the engine was cancelled");
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_answer_holds_up_no_other() {
    let config = settings(Duration::from_secs(3600), 100_000);
    let daemon = Daemon::with("tokens=100000,context=200000", 8, config).await;
    let (sleeper, other) = (daemon.client().await, daemon.client().await);
    let long = fields([("max_tokens", 100_000u32.into())]);
    let (_, unread) = ask(&sleeper, "unread", long).await.unwrap();
    for _ in 0..20 {
        let (_, stream) = ask(&other, "hello", fields([])).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        assert_eq!(answer.usage.completion_tokens, 512);
    }
    // A late reader still finds the whole answer.
    let answer = Reader::new(unread).answer().await;
    assert_eq!(answer.usage.completion_tokens, 100_000);
    assert_eq!(answer.text.len(), "sim:".len() + 99_999 * " unread".len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_request_is_removed_later() {
    let config = BusConfig {
        finished_linger: Duration::from_millis(100),
        ..BusConfig::default()
    };
    let daemon = Daemon::with("tokens=1", 8, config).await;
    let client = daemon.client().await;
    let (path, stream) = ask(&client, "a", fields([])).await.unwrap();
    Reader::new(stream).answer().await;
    let request = client.request(path).await;
    until(async || request.state().await.is_err()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_signal_their_changes() {
    let daemon = Daemon::start(MUTE).await;
    let client = daemon.client().await;
    let properties = PropertiesProxy::new(&client.connection, NAME, PATH)
        .await
        .unwrap();
    let mut changes = properties.receive_properties_changed().await.unwrap();
    let mut await_sessions = async |expected: u32| {
        eventually(async {
            loop {
                let signal = changes.next().await.unwrap();
                let args = signal.args().unwrap();
                if args.changed_properties.get("Sessions") == Some(&Variant::from(expected)) {
                    return;
                }
            }
        })
        .await;
    };
    let session = client.manager.open_session(fields([])).await.unwrap();
    await_sessions(1).await;
    client.session(session).await.close().await.unwrap();
    await_sessions(0).await;
}

/// Returns the introspection of the daemon's object.
async fn tree(client: &Client) -> String {
    let reply = client
        .connection
        .call_method(
            Some(NAME),
            PATH,
            Some("org.freedesktop.DBus.Introspectable"),
            "Introspect",
            &(),
        )
        .await
        .unwrap();
    reply.body().deserialize().unwrap()
}
