//! The errors of each method: the manual's table is compared with the errors that can be provoked.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::join_all;
use ganglion::bus::proxy::{DiagnosticsProxy, Fields, SessionProxy};
use ganglion::bus::{BusConfig, Error, METHOD_ERRORS, serve};
use ganglion::engine::{Codec, Command, Control, EngineError, Limits, UserLimits, channel};
use ganglion::front::{self, Front};
use zbus::DBusError as _;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon, LIMITS, eventually, until};
use crate::support::private_bus::PrivateBus;
use crate::support::without_descriptors;
use crate::tools::TOOLS;

/// Errors that need a configuration and a model (`tests/service/reload.rs`) or a client that does not read (`fair_turns.rs`
/// and the accounts' own tests).
const ELSEWHERE: [(&str, &str); 27] = [
    // See `tests/together/unloads.rs`.
    ("Manager.Complete", "OutOfMemory"),
    // Errors that need a full disk: see `tests/service/named_sessions.rs`.
    ("Manager.DeleteSession", "EngineFailed"),
    ("Manager.ListSessions", "EngineFailed"),
    ("Manager.ReadSession", "EngineFailed"),
    ("Manager.ReadSession", "Busy"),
    ("Manager.ReadSession", "QuotaExceeded"),
    ("Manager.ListSessions", "QuotaExceeded"),
    ("Manager.OpenSession", "EngineFailed"),
    ("Session.Append", "EngineFailed"),
    ("Session.Append", "QuotaExceeded"),
    ("Session.Clear", "EngineFailed"),
    ("Session.Prewarm", "QuotaExceeded"),
    ("Session.Rewind", "EngineFailed"),
    ("Manager.Hold", "QuotaExceeded"),
    ("Manager.HoldAll", "QuotaExceeded"),
    ("Manager.Reload", "EngineFailed"),
    ("Manager.Reload", "InvalidOption"),
    ("Manager.Reload", "OutOfMemory"),
    ("Session.Prewarm", "InvalidOption"),
    ("Session.Prewarm", "NotSupported"),
    ("Manager.ListSessions", "Busy"),
    ("Session.History", "Busy"),
    ("Session.History", "QuotaExceeded"),
    ("Session.Messages", "Busy"),
    ("Session.Messages", "QuotaExceeded"),
    ("Request.Read", "Busy"),
    ("Request.Read", "QuotaExceeded"),
];

/// The errors seen so far.
#[derive(Default)]
struct Seen(BTreeSet<(String, String)>);

impl Seen {
    fn saw<T: Debug>(&mut self, method: &str, result: Result<T, Error>, error: &str) {
        let refused = result.expect_err(method);
        let name = refused.name().to_string();
        let name = name.rsplit('.').next().expect("a name");
        assert_eq!(name, error, "{method}: {refused}");
        self.0.insert((method.to_owned(), error.to_owned()));
    }

    /// Errors of all methods that start a request.
    async fn asking(
        &mut self,
        client: &Client,
        session: &SessionProxy<'_>,
        text: &str,
        error: &str,
    ) {
        self.asking_with(client, session, text, || fields([]), error)
            .await;
    }

    async fn asking_with(
        &mut self,
        client: &Client,
        session: &SessionProxy<'_>,
        text: &str,
        options: impl Fn() -> Fields<'static>,
        error: &str,
    ) {
        self.saw(
            "Manager.Generate",
            ask(client, text, options()).await,
            error,
        );
        let message = ("user", fields([("content", text.into())]));
        let submitted = client.manager.submit(&[message], options()).await;
        self.saw("Manager.Submit", submitted, error);
        let submitted = session.submit(text, options()).await;
        self.saw("Session.Submit", submitted, error);
        let completed = client.manager.complete(text, options()).await;
        self.saw("Manager.Complete", completed, error);
        self.saw("Session.Send", session.send(text, options()).await, error);
        let message = || [("user", fields([("content", text.into())]))];
        let replied = session.reply(&message(), options()).await;
        self.saw("Session.Reply", replied, error);
        let replied = session.submit_reply(&message(), options()).await;
        self.saw("Session.SubmitReply", replied, error);
    }
}

fn limits(requests: usize, sessions: usize, of_user: usize) -> Limits {
    Limits {
        requests,
        sessions,
        user: UserLimits {
            requests: of_user,
            sessions: of_user,
            ..LIMITS.user
        },
        ..LIMITS
    }
}

async fn refused_by_name(seen: &mut Seen, client: &Client) {
    let named = fields([("name", "talk".into()), ("persistent", false.into())]);
    client.manager.open_session(named).await.unwrap();
    let deleted = client.manager.delete_session("talk").await;
    seen.saw("Manager.DeleteSession", deleted, "Busy");
    let deleted = client.manager.delete_session("other").await;
    seen.saw("Manager.DeleteSession", deleted, "InvalidOption");
    let read = client.manager.read_session("other").await;
    seen.saw("Manager.ReadSession", read, "InvalidOption");
}

async fn refused_beside_turns(seen: &mut Seen, session: &SessionProxy<'_>, long: &str) {
    let appended = session.append(&said("assistant", "a")).await;
    seen.saw("Session.Append", appended, "InvalidMessages");
    let appended = session.append(&said("user", &long[..30_000])).await;
    seen.saw("Session.Append", appended, "ContextFull");
    let warmed = session.prewarm(&"word ".repeat(100)).await;
    seen.saw("Session.Prewarm", warmed, "ContextFull");
    let warmed = session.prewarm(long).await;
    seen.saw("Session.Prewarm", warmed, "InvalidMessages");
}

fn said<'a>(role: &'a str, text: &'a str) -> [(&'a str, Fields<'a>); 1] {
    [(role, fields([("content", text.into())]))]
}

async fn refused_by_arguments_and_limits(seen: &mut Seen) {
    let daemon = Daemon::start("context=100").await;
    let client = daemon.client().await;
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    let unknown = || fields([("x", 1u32.into())]);
    seen.asking_with(&client, &session, "a", unknown, "InvalidOption")
        .await;
    seen.asking(&client, &session, " ", "InvalidMessages").await;
    seen.asking(&client, &session, &"word ".repeat(100), "ContextFull")
        .await;
    refused_by_name(seen, &client).await;
    let opened = client.manager.open_session(unknown()).await;
    seen.saw("Manager.OpenSession", opened, "InvalidOption");
    // A script calls no tools.
    let tools = || fields([("tools", TOOLS.into())]);
    seen.asking_with(&client, &session, "a", tools, "NotSupported")
        .await;
    let opened = client.manager.open_session(tools()).await;
    seen.saw("Manager.OpenSession", opened, "NotSupported");
    let long = "x".repeat(2 << 20);
    let opened = client
        .manager
        .open_session(fields([("system", (&*long).into())]))
        .await;
    seen.saw("Manager.OpenSession", opened, "InvalidMessages");
    // More bytes than a hundred words can have.
    let opened = client
        .manager
        .open_session(fields([("system", (&long[..30_000]).into())]))
        .await;
    seen.saw("Manager.OpenSession", opened, "ContextFull");
    seen.saw("Session.Rewind", session.rewind(1).await, "InvalidOption");
    refused_beside_turns(seen, &session, &long).await;

    for (limits, error) in [
        (limits(9, 9, 0), "QuotaExceeded"),
        (limits(0, 0, 9), "Busy"),
    ] {
        daemon.engine.set_limits(limits);
        seen.asking(&client, &session, "a", error).await;
        let opened = client.manager.open_session(fields([])).await;
        seen.saw("Manager.OpenSession", opened, error);
        seen.saw("Session.Branch", session.branch().await, error);
    }
    daemon.engine.set_limits(LIMITS);

    let (request, _stream) = ask(&client, "hello", fields([])).await.unwrap();
    let own = client.request(request).await;
    seen.saw("Request.Read", own.read(0).await, "NotSupported");
    let message = ("user", fields([("content", "a".into())]));
    let own = client.manager.submit(&[message], fields([])).await.unwrap();
    let own = client.request(own).await;
    seen.saw("Request.Read", own.read(1 << 20).await, "InvalidOption");
    refused_to_who_holds(seen, &client, &long).await;
    refused_to_connections_without_descriptors(seen, &daemon).await;

    seen.saw(
        "Manager.Reload",
        client.manager.reload().await,
        "NotSupported",
    );
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    seen.saw(
        "Diagnostics.ResetGraph",
        diagnostics.reset_graph().await,
        "NotSupported",
    );
    seen.saw(
        "Diagnostics.DumpGraph",
        diagnostics.dump_graph().await,
        "NotSupported",
    );
}

async fn refused_to_who_holds(seen: &mut Seen, client: &Client, long: &str) {
    let held = client.manager.hold(long).await;
    seen.saw("Manager.Hold", held, "InvalidMessages");
    let held = client.manager.hold_all(long).await;
    seen.saw("Manager.HoldAll", held, "InvalidMessages");
    let _held = client.manager.hold("it is needed").await.unwrap();
    let held = client.manager.hold("twice").await;
    seen.saw("Manager.Hold", held, "Busy");
    let held = client.manager.hold_all("thrice").await;
    seen.saw("Manager.HoldAll", held, "Busy");
}

async fn refused_to_connections_without_descriptors(seen: &mut Seen, daemon: &Daemon) {
    let plain = Client::on(without_descriptors::connect(&daemon.bus).await).await;
    let own = plain.manager.open_session(fields([])).await.unwrap();
    let own = plain.session(own).await;
    let generated = ask(&plain, "a", fields([])).await;
    seen.saw("Manager.Generate", generated, "NotSupported");
    seen.saw(
        "Session.Send",
        own.send("a", fields([])).await,
        "NotSupported",
    );
    let image = vec![fields([("data", vec![0u8].into())])];
    let message = ("user", fields([("parts", image.into())]));
    let appended = own.append(&[message]).await;
    seen.saw("Session.Append", appended, "NotSupported");
    let held = plain.manager.hold("a").await;
    seen.saw("Manager.Hold", held, "NotSupported");
    let held = plain.manager.hold_all("a").await;
    seen.saw("Manager.HoldAll", held, "NotSupported");
}

async fn refused_while_one_is_answered(seen: &mut Seen) {
    let daemon = Daemon::start("first=3600s").await;
    let client = daemon.client().await;
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    let _stream = session.send("a", fields([])).await.unwrap();
    seen.saw("Manager.Release", client.manager.release().await, "Busy");
    seen.saw("Session.Rewind", session.rewind(0).await, "Busy");
    seen.saw("Session.Clear", session.clear().await, "Busy");
    seen.saw("Session.Append", session.append(&[]).await, "Busy");
    seen.saw("Session.Prewarm", session.prewarm("a").await, "Busy");
    let complete = client.manager.complete("a", fields([]));
    let stop = async {
        until(async || client.manager.queue_length().await.unwrap() == 2).await;
        daemon.engine.cancel_all();
    };
    let (completed, ()) = tokio::join!(complete, stop);
    seen.saw("Manager.Complete", completed, "Cancelled");
}

async fn refused_when_it_takes_too_long(seen: &mut Seen) {
    let config = BusConfig {
        complete_timeout: Duration::from_millis(1),
        ..BusConfig::default()
    };
    let daemon = Daemon::with("first=3600s", 8, config).await;
    let completed = daemon
        .client()
        .await
        .manager
        .complete("a", fields([]))
        .await;
    seen.saw("Manager.Complete", completed, "Timeout");
}

async fn refused_without_a_model(seen: &mut Seen) {
    let daemon = Daemon::start("load=1s,load_error=no such file").await;
    let client = daemon.client().await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    until(async || client.manager.state().await.unwrap() == "failed").await;
    seen.asking(&client, &session, "a", "NotReady").await;
    let released = client.manager.release().await;
    seen.saw("Manager.Release", released, "NotReady");
    let opened = client.manager.open_session(fields([])).await;
    seen.saw("Manager.OpenSession", opened, "NotReady");
    seen.saw("Session.Append", session.append(&[]).await, "NotReady");
    seen.saw("Session.Branch", session.branch().await, "NotReady");
    seen.saw("Session.Prewarm", session.prewarm("a").await, "NotReady");
    seen.saw(
        "Diagnostics.ResetGraph",
        diagnostics.reset_graph().await,
        "NotReady",
    );
    seen.saw(
        "Diagnostics.DumpGraph",
        diagnostics.dump_graph().await,
        "NotReady",
    );
}

async fn failed_by_the_engine(seen: &mut Seen) {
    let daemon = Daemon::start("fail_after=0").await;
    let completed = daemon
        .client()
        .await
        .manager
        .complete("a", fields([]))
        .await;
    seen.saw("Manager.Complete", completed, "EngineFailed");

    // An engine whose driver fails, and a daemon that answers no reload.
    let bus = PrivateBus::start();
    let (engine, inbox) = channel(LIMITS);
    let front = Front::new(engine.clone());
    front.configure(front::Config::default());
    let served = serve(&bus.address(), front)
        .await
        .expect("the name is free");
    served.configure(BusConfig::default());
    let thread = std::thread::spawn(move || {
        let _ = inbox.ready(Codec::Words, 64);
        while let Some(command) = inbox.next() {
            if let Command::Control(Control::DumpGraph(reply)) = command {
                let error = EngineError::Scripted {
                    text: "cuGraphDebugDotPrint: CUDA_ERROR_UNKNOWN".into(),
                    driver_error: Some("CUDA_ERROR_UNKNOWN"),
                };
                let _ = reply.send(Err(error.into()));
            }
        }
    });
    let client = Client::connect(&bus).await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    until(async || client.manager.state().await.unwrap() == "ready").await;
    let dumped = diagnostics.dump_graph().await;
    seen.saw("Diagnostics.DumpGraph", dumped, "EngineFailed");

    let mut reloads = served.take_reloads();
    let waiting = join_all((0..8).map(|_| client.manager.reload()));
    let answer = async {
        until(async || reloads.len() == 8).await;
        let another = client.manager.reload().await;
        reloads.close();
        while reloads.recv().await.is_some() {}
        another
    };
    let (waited, another) = eventually(async { tokio::join!(waiting, answer) }).await;
    seen.saw("Manager.Reload", another, "Busy");
    for reloaded in waited {
        seen.saw("Manager.Reload", reloaded, "NotReady");
    }
    engine.close();
    thread.join().expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_answer_with_the_errors_of_the_table() {
    let mut seen = Seen::default();
    refused_by_arguments_and_limits(&mut seen).await;
    refused_while_one_is_answered(&mut seen).await;
    refused_when_it_takes_too_long(&mut seen).await;
    refused_without_a_model(&mut seen).await;
    failed_by_the_engine(&mut seen).await;
    let table = METHOD_ERRORS.iter().flat_map(|(method, errors)| {
        let pair = |error: &&str| ((*method).to_owned(), (*error).to_owned());
        errors.iter().map(pair)
    });
    let elsewhere = ELSEWHERE.map(|(method, error)| (method.to_owned(), error.to_owned()));
    seen.0.extend(elsewhere);
    assert_eq!(seen.0, table.collect());
}
