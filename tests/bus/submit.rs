//! Callers that take no file descriptors: their calls fail at once, and Submit serves them.

use std::collections::HashMap;
use std::time::Duration;

use ganglion::bus::proxy::{DiagnosticsProxy, Fields};
use ganglion::bus::{BusConfig, Error, serve};
use ganglion::engine::{Codec, Command, Control, channel};
use ganglion::front::{self, Front};
use tokio::time::timeout;
use zbus::OwnedObjectPath;

use super::fields;
use crate::support::daemon::{Client, Daemon, LIMITS, eventually, until};
use crate::support::private_bus::PrivateBus;
use crate::support::signals::Signals;
use crate::support::without_descriptors;

fn question(text: &str) -> [(&'static str, Fields<'_>); 1] {
    [("user", HashMap::from([("content", text.into())]))]
}

async fn plain_client(daemon: &Daemon) -> Client {
    Client::on(without_descriptors::connect(&daemon.bus).await).await
}

/// Polls until the answer is complete. Also returns the finish reason.
async fn read(client: &Client, path: OwnedObjectPath) -> (String, String) {
    let request = client.request(path).await;
    let (mut text, mut offset) = (String::new(), 0);
    eventually(async {
        loop {
            let (piece, next, done) = request.read(offset).await.unwrap();
            assert_eq!(next, offset + piece.len() as u64);
            text += &piece;
            offset = next;
            if done {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let result = request.result().await.unwrap();
    let reason = String::try_from(result["finish_reason"].try_clone().unwrap());
    (text, reason.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_descriptors_calls_that_need_one_fail_at_once_and_leave_nothing() {
    let daemon = Daemon::start("first=3600s").await;
    let client = plain_client(&daemon).await;
    let session = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(session).await;
    let signals = || fields([("stream", "signals".into())]);
    // The daemon does not know the kind of the connection yet, and then it does.
    for options in [signals(), fields([]), signals()] {
        let again: HashMap<_, _> = options
            .iter()
            .map(|(k, v)| (*k, v.try_clone().unwrap()))
            .collect();
        let message = question("hello");
        let asked = async {
            let generated = client.manager.generate(&message, options).await.map(drop);
            let sent = session.send("hello", again).await.map(drop);
            [generated, sent]
        };
        // The bus alone would never answer them.
        let refused = timeout(Duration::from_secs(20), asked).await;
        for refused in refused.expect("each has an answer") {
            match refused {
                Err(Error::NotSupported(why)) => assert!(why.contains("Submit"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        until(async || client.manager.queue_length().await.unwrap() == 0).await;
    }
    assert!(!session.busy().await.unwrap());

    // A connection that takes descriptors is served as before.
    let other = daemon.client().await;
    other
        .manager
        .generate(&question("a"), fields([]))
        .await
        .unwrap();
}

/// Two calls run before either is answered. Both fail, and nothing else of the connection does.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_request_continues_when_a_call_without_descriptors_fails() {
    let daemon = Daemon::start("tokens=300,delay=1ms").await;
    let client = plain_client(&daemon).await;
    let message = question("word");
    let submitted = client.manager.submit(&message, fields([])).await.unwrap();
    let [one, two] = [fields([]), fields([("stream", "signals".into())])]
        .map(|options| client.manager.generate(&message, options));
    let (one, two) = eventually(async { tokio::join!(one, two) }).await;
    assert!(matches!(one, Err(Error::NotSupported(_))), "{one:?}");
    assert!(matches!(two, Err(Error::NotSupported(_))), "{two:?}");
    let (text, reason) = read(&client, submitted).await;
    assert_eq!((text.len(), reason.as_str()), (4 + 299 * 5, "stop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_request_is_read_by_calls_or_signals() {
    let daemon = Daemon::start("tokens=40,delay=1ms").await;
    let client = plain_client(&daemon).await;
    let whole = format!("sim:{}", " grüße".repeat(39));
    let path = client
        .manager
        .submit(&question("grüße"), fields([]))
        .await
        .unwrap();
    assert_eq!(
        read(&client, path.clone()).await,
        (whole.clone(), "stop".into())
    );
    assert_eq!(read(&client, path.clone()).await.0, whole, "it is kept");
    let request = client.request(path).await;
    for nowhere in [8, 1 << 40] {
        let refused = request.read(nowhere).await;
        assert!(
            matches!(refused, Err(Error::InvalidOption(_))),
            "{refused:?}"
        );
    }

    let mut signals = Signals::listen(&client).await;
    let wanted = fields([("signals", true.into())]);
    let path = client
        .manager
        .submit(&question("grüße"), wanted)
        .await
        .unwrap();
    let (reason, _) = signals.finished(&path).await;
    assert_eq!((signals.text.as_str(), reason.as_str()), (&*whole, "stop"));
    assert_eq!(read(&client, path).await.0, whole);

    let session = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(session).await;
    for _ in 0..2 {
        let path = session.submit("grüße", fields([])).await.unwrap();
        assert_eq!(read(&client, path).await.0, whole);
    }
    assert_eq!(session.turns().await.unwrap(), 2);

    // A streamed answer is not kept for Read.
    let other = daemon.client().await;
    let (path, _stream) = other
        .manager
        .generate(&question("a"), fields([]))
        .await
        .unwrap();
    let refused = other.request(path).await.read(0).await;
    assert!(
        matches!(refused, Err(Error::NotSupported(_))),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_request_is_cancelled_by_its_caller_and_its_text_ends_with_its_object() {
    let config = BusConfig {
        finished_linger: Duration::from_millis(50),
        ..BusConfig::default()
    };
    let daemon = Daemon::with("delay=1ms,tokens=100000", 8, config).await;
    let client = plain_client(&daemon).await;
    let options = || fields([("max_tokens", 4096u32.into())]);
    let path = client
        .manager
        .submit(&question("word"), options())
        .await
        .unwrap();
    let request = client.request(path).await;
    until(async || request.read(0).await.unwrap().1 > 9).await;
    request.cancel().await.unwrap();
    until(async || request.read(0).await.is_err()).await;

    client
        .manager
        .submit(&question("word"), options())
        .await
        .unwrap();
    let other = daemon.client().await;
    assert_eq!(other.manager.queue_length().await.unwrap(), 1);
    drop(client);
    until(async || other.manager.queue_length().await.unwrap() == 0).await;
}

/// The caller is still reported, although none of its requests runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_passed_is_an_error_too() {
    let bus = PrivateBus::start();
    let (engine, inbox) = channel(LIMITS);
    let front = Front::new(engine.clone());
    front.configure(front::Config::default());
    let served = serve(&bus.address(), front).await;
    let served = served.expect("the name is free");
    served.configure(BusConfig::default());
    let thread = std::thread::spawn(move || {
        let _ = inbox.ready(Codec::Words, 64);
        while let Some(command) = inbox.next() {
            if let Command::Control(Control::DumpGraph(reply)) = command {
                let _ = reply.send(Ok("digraph {}".to_owned()));
            }
        }
    });
    let client = Client::on(without_descriptors::connect(&bus).await).await;
    until(async || client.manager.state().await.unwrap() == "ready").await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    let dumped = eventually(diagnostics.dump_graph()).await;
    assert!(matches!(dumped, Err(Error::NotSupported(_))), "{dumped:?}");
    engine.close();
    thread.join().expect("it ends");
}

/// Only the owner sees how far its prompt is prefilled.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_sees_how_far_the_prompt_is_read() {
    let daemon = Daemon::start("first=3600s").await;
    let (mine, other) = (daemon.client().await, daemon.client().await);
    let ask = async |text| {
        let asked = mine.manager.submit(&question(text), fields([])).await;
        asked.unwrap()
    };
    let path = ask("one two three").await;
    let (running, waiting) = (mine.request(path.clone()).await, ask("four").await);
    let waiting = mine.request(waiting).await;
    until(async || running.reading().await.unwrap() == (0, 3)).await;
    assert_eq!(waiting.reading().await.unwrap(), (0, 0));
    let refused = other.request(path).await.reading().await;
    assert!(matches!(refused, Err(Error::Bus(_))), "{refused:?}");

    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let text = question("one two three");
    let asked = client.manager.submit(&text, fields([]));
    let request = asked.await.unwrap();
    read(&client, request.clone()).await;
    assert_eq!(
        client.request(request).await.reading().await.unwrap(),
        (3, 3)
    );
}
