//! Conversations that the daemon remembers.

use ganglion::bus::Error;
use ganglion::bus::proxy::{DiagnosticsProxy, Fields};
use ganglion::engine::FinishReason;
use zbus::{Variant, fdo};

use super::fields;
use crate::support::daemon::{Daemon, eventually, until};
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_remembers_and_prefills_only_new_tokens() {
    let daemon = Daemon::start("context=64").await;
    let client = daemon.client().await;
    let system = fields([("system", "be brief".into())]);
    let path = client.manager.open_session(system).await.unwrap();
    let session = client.session(path.clone()).await;
    let (_, stream) = session.send("one two", fields([])).await.unwrap();
    let first = Reader::new(stream).answer().await;
    assert_eq!(first.text, "sim: one two");
    assert_eq!(
        (first.usage.prompt_tokens, first.usage.cached_tokens),
        (4, 0)
    );

    let (_, stream) = session.send("three", fields([])).await.unwrap();
    let second = Reader::new(stream).answer().await;
    assert_eq!(second.text, "sim: three");
    assert_eq!(
        (second.usage.prompt_tokens, second.usage.cached_tokens),
        (8, 7)
    );

    let history = session.history().await.unwrap();
    let history: Vec<_> = history
        .iter()
        .map(|(r, t)| (r.as_str(), t.as_str()))
        .collect();
    assert_eq!(
        history,
        [
            ("system", "be brief"),
            ("user", "one two"),
            ("assistant", "sim: one two"),
            ("user", "three"),
            ("assistant", "sim: three"),
        ]
    );
    assert_eq!(session.turns().await.unwrap(), 2);
    assert_eq!(session.context_used().await.unwrap(), 10);
    assert_eq!(session.context_size().await.unwrap(), 64);
    assert!(!session.busy().await.unwrap());

    let long = "x ".repeat(60);
    let refused = session.send(&long, fields([])).await;
    assert!(matches!(refused, Err(Error::ContextFull(_))), "{refused:?}");
    assert_eq!(session.turns().await.unwrap(), 2, "nothing is lost");

    session.close().await.unwrap();
    for refused in [
        session.turns().await.map(drop),
        session.send("x", fields([])).await.map(drop),
        session.close().await,
    ] {
        let gone = |error: &fdo::Error| matches!(error, fdo::Error::UnknownObject(_));
        assert!(
            matches!(&refused, Err(Error::Bus(zbus::Error::FDO(error))) if gone(error)),
            "{refused:?}"
        );
    }
    assert_eq!(client.manager.sessions().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_one_turn_at_a_time() {
    let daemon = Daemon::start("first=3600s").await;
    let client = daemon.client().await;
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    let (request, stream) = session.send("one", fields([])).await.unwrap();
    for refused in [
        session.send("two", fields([])).await.map(drop),
        session.rewind(0).await,
        session.clear().await,
    ] {
        assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    }
    assert!(session.busy().await.unwrap());

    client.request(request).await.cancel().await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.reason, FinishReason::Cancelled);
    assert!(!session.busy().await.unwrap());
    assert_eq!(session.history().await.unwrap(), []);

    let (_, stream) = session.send("three", fields([])).await.unwrap();
    session.close().await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(
        answer.reason,
        FinishReason::Cancelled,
        "closing ends the turn"
    );
}

/// Both calls are sent before either is answered. In every order, the turn ends with its session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_closed_as_it_is_sent_a_turn_leaves_nothing_that_runs() {
    let daemon = Daemon::start("first=3600s").await;
    let client = daemon.client().await;
    for _ in 0..50 {
        let path = client.manager.open_session(fields([])).await.unwrap();
        let session = client.session(path).await;
        let send = session.send("one", fields([]));
        let (turn, closed) = futures_util::future::join(send, session.close()).await;
        closed.unwrap();
        // Otherwise the call arrived after the session's end, or ended with it.
        if let Ok((_, stream)) = turn {
            let answer = eventually(Reader::new(stream).answer()).await;
            assert_eq!(answer.reason, FinishReason::Cancelled);
        }
        until(async || client.manager.queue_length().await.unwrap() == 0).await;
    }
    assert_eq!(client.manager.sessions().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_limited_and_the_error_names_the_limit() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    for _ in 0..4 {
        client.manager.open_session(fields([])).await.unwrap();
    }
    let refused = client.manager.open_session(fields([])).await;
    match refused {
        Err(Error::Busy(message)) => assert!(message.contains("4 sessions"), "{message}"),
        other => panic!("{other:?}"),
    }
}

/// A script counts words as tokens. `window` tests this with a model.
#[tokio::test(flavor = "multi_thread")]
async fn turns_are_rewound_and_too_many_are_refused() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let system = fields([("system", "be brief".into())]);
    let path = client.manager.open_session(system).await.unwrap();
    let session = client.session(path).await;
    for text in ["one", "two", "three"] {
        let (_, stream) = session.send(text, fields([])).await.unwrap();
        Reader::new(stream).answer().await;
    }
    session.rewind(2).await.unwrap();
    let history = session.history().await.unwrap();
    assert_eq!(history.last().unwrap().1, "sim: one");
    assert_eq!(history.len(), 3);
    assert_eq!(session.turns().await.unwrap(), 1);
    match session.rewind(2).await {
        Err(Error::InvalidOption(message)) => assert!(message.contains("has 1"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.turns().await.unwrap(), 1, "nothing is lost");

    session.clear().await.unwrap();
    assert_eq!(session.turns().await.unwrap(), 0);
    assert_eq!(session.context_used().await.unwrap(), 0);
    let only_system = [("system".to_owned(), "be brief".to_owned())];
    assert_eq!(session.history().await.unwrap(), only_system);

    let stranger = daemon.client().await;
    let theirs = stranger.session(session.inner().path().to_owned().into());
    let refused = theirs.await.clear().await;
    assert!(matches!(refused, Err(Error::Bus(_))), "{refused:?}");
}

/// A prefix that leaves no room for a turn is refused when the session opens, not at each turn.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_starts_with_a_prefix_that_leaves_no_room() {
    let daemon = Daemon::start("context=64").await;
    let client = daemon.client().await;
    let message = |role: &'static str, more: &[(&'static str, &'static str)]| {
        let fields = more.iter().map(|(key, text)| (*key, Variant::from(*text)));
        (role, fields.collect::<Fields<'static>>())
    };
    let call = r#"[{"id":"1","type":"function","function":{"name":"look","arguments":"{}"}}]"#;
    let asked = || message("user", &[("content", "what is there?")]);
    let called = || message("assistant", &[("content", ""), ("tool_calls", call)]);
    let result = || message("tool", &[("content", "a wall"), ("tool_call_id", "1")]);
    let open = async |messages: Vec<(&'static str, Fields<'static>)>, system: &str| {
        let options = fields([("messages", messages.into()), ("system", system.into())]);
        client.manager.open_session(options).await
    };
    // Each word is a token, and so is the shortest turn.
    let full = open(Vec::new(), "word ".repeat(64).trim()).await;
    assert!(matches!(full, Err(Error::ContextFull(_))), "{full:?}");
    let unasked = open(vec![asked(), result()], "be brief").await;
    match unasked {
        Err(Error::InvalidMessages(why)) => assert!(why.contains("\"1\""), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.manager.sessions().await.unwrap(), 0);
    for messages in [
        vec![asked()],
        vec![asked(), called()],
        vec![asked(), called(), result()],
    ] {
        let path = open(messages, "be brief").await.expect("turns can follow");
        client.session(path).await.close().await.unwrap();
    }
    open(Vec::new(), "word ".repeat(60).trim())
        .await
        .expect("there is room");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_a_script_does_not_support_say_so() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    for refused in [
        client.manager.reload().await,
        diagnostics.reset_graph().await,
        diagnostics.dump_graph().await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::NotSupported(_))),
            "{refused:?}"
        );
    }
}

/// Reading does not open the session: its holder keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_read_while_another_connection_holds_it() {
    let daemon = Daemon::start("").await;
    let (holder, reader) = (daemon.client().await, daemon.client().await);
    let named = fields([("name", "tour".into()), ("persistent", false.into())]);
    let path = holder.manager.open_session(named).await.unwrap();
    let session = holder.session(path).await;
    let (_, stream) = session.send("one", fields([])).await.unwrap();
    Reader::new(stream).answer().await;
    let read = reader.manager.read_session("tour").await.unwrap();
    assert_eq!(read, session.messages().await.unwrap());
    assert_eq!(read.len(), 2);
    assert_eq!(session.turns().await.unwrap(), 1);

    // The messages can be sent unchanged in a request.
    let dropped = [("content", "one".into()), ("dropped", true.into())];
    let messages = [("user", fields(dropped))];
    let asked = reader.manager.submit(&messages, fields([])).await;
    asked.expect("it is taken");
}
