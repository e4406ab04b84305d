//! Answers arrive at their callers whole, in order, and separate from others.

use std::time::Duration;

use futures_util::future::join_all;
use ganglion::bus::{BusConfig, Error, Frame};
use ganglion::telemetry::FinishReason;
use zbus::Variant;

use super::{ask, fields};
use crate::support::daemon::{Daemon, until};
use crate::support::signals::Signals;
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streams_as_it_is_made_and_finished_follows() {
    let daemon = Daemon::start("tokens=6,delay=1ms").await;
    let client = daemon.client().await;
    let mut signals = Signals::listen(&client).await;
    let (path, stream) = ask(&client, "grüße 🌍 \"x\"", fields([])).await.unwrap();
    let request = client.request(path.clone()).await;

    let mut reader = Reader::new(stream);
    let first = reader.next().await;
    assert_eq!(
        first,
        Some(Frame::Text {
            seq: 0,
            text: "sim:".into(),
            logprobs: Vec::new(),
        })
    );
    let answer = reader.answer().await;
    assert_eq!(answer.text, " grüße 🌍 \"x\" grüße 🌍");
    assert_eq!(answer.reason, FinishReason::Stop);
    assert_eq!(answer.usage.completion_tokens, 6);
    assert_eq!(answer.usage.prompt_tokens, 3);

    assert_eq!(request.state().await.unwrap(), "finished");
    let result = request.result().await.unwrap();
    assert_eq!(*result["finish_reason"], Variant::from("stop"));
    assert_eq!(*result["completion_tokens"], Variant::from(6u32));
    let (reason, info) = signals.finished(&path).await;
    assert_eq!(reason, "stop");
    assert_eq!(info, result);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_tokens_and_stop_strings_end_an_answer() {
    let daemon = Daemon::start("tokens=50").await;
    let client = daemon.client().await;
    for (options, text, reason) in [
        (
            fields([("max_tokens", 3i32.into())]),
            "sim: a b",
            FinishReason::Length,
        ),
        (
            fields([("stop", vec!["zz", "b a"].into())]),
            "sim: a ",
            FinishReason::Stop,
        ),
    ] {
        let (_, stream) = ask(&client, "a b", options).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        assert_eq!((answer.text.as_str(), answer.reason), (text, reason));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_clients_at_once_get_their_own_answers() {
    let daemon = Daemon::start("tokens=40,delay=1ms").await;
    let clients = join_all((0..8).map(|_| daemon.client())).await;
    join_all(clients.iter().enumerate().map(async |(n, client)| {
        let word = format!("word{n}");
        for _ in 0..3 {
            let (_, stream) = ask(client, &word, fields([])).await.unwrap();
            let answer = Reader::new(stream).answer().await;
            assert_eq!(
                answer.text,
                format!("sim:{}", format!(" {word}").repeat(39))
            );
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_arrives_by_signals_on_request() {
    let daemon = Daemon::start("tokens=200,delay=1ms").await;
    let client = daemon.client().await;
    let mut signals = Signals::listen(&client).await;
    let by_signals = fields([("stream", "signals".into())]);
    let (path, stream) = ask(&client, "word", by_signals).await.unwrap();
    assert!(
        Reader::new(stream).next().await.is_none(),
        "the pipe is closed"
    );
    let (reason, _) = signals.finished(&path).await;
    assert_eq!(reason, "stop");
    assert_eq!(signals.text, format!("sim:{}", " word".repeat(199)));
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_answers_in_its_reply_and_keeps_to_its_time() {
    let daemon = Daemon::start("tokens=3").await;
    let client = daemon.client().await;
    let (text, info) = client.manager.complete("a b", fields([])).await.unwrap();
    assert_eq!(text, "sim: a b");
    assert_eq!(*info["finish_reason"], Variant::from("stop"));
    assert_eq!(*info["completion_tokens"], Variant::from(3u32));

    let before =
        |role: &'static str, text: &'static str| (role, fields([("content", text.into())]));
    let messages = || vec![before("user", "one two"), before("assistant", "three")];
    for (prompt, more, prompt_tokens) in [
        ("a b", vec![("system", "be brief".into())], 4u32),
        ("a b", vec![("messages", Variant::from(messages()))], 5),
        (
            "a b",
            vec![("messages", messages().into()), ("system", "x".into())],
            6,
        ),
        (
            "",
            vec![("messages", vec![before("user", "a b")].into())],
            2,
        ),
    ] {
        let (text, info) = client
            .manager
            .complete(prompt, more.into_iter().collect())
            .await
            .unwrap();
        assert_eq!(text, "sim: a b");
        assert_eq!(*info["prompt_tokens"], Variant::from(prompt_tokens));
    }
    for (prompt, name, value, hint) in [
        ("a", "messages", Variant::from("b"), "messages (a(sa{sv}))"),
        (
            "a",
            "messages",
            vec![("root", fields([]))].into(),
            "unknown role",
        ),
        (
            "",
            "messages",
            messages().into(),
            "the last message is by \"assistant\"",
        ),
        ("", "system", "be brief".into(), "the last message is empty"),
    ] {
        match client
            .manager
            .complete(prompt, fields([(name, value)]))
            .await
        {
            Err(Error::InvalidOption(why) | Error::InvalidMessages(why)) => {
                assert!(why.contains(hint), "{why}");
            }
            other => panic!("{hint}: {other:?}"),
        }
    }

    let config = BusConfig {
        complete_timeout: Duration::from_secs(1),
        ..BusConfig::default()
    };
    let slow = Daemon::with("tokens=100,delay=100ms", 8, config).await;
    let client = slow.client().await;
    match client.manager.complete("a b", fields([])).await {
        Err(Error::Timeout(why)) => assert!(why.contains("lower max_tokens"), "{why}"),
        other => panic!("{other:?}"),
    }
    until(async || client.manager.queue_length().await.unwrap() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_engine_fails_one_request_by_name() {
    let daemon = Daemon::start("tokens=9,fail_after=2").await;
    let client = daemon.client().await;
    let (_, stream) = ask(&client, "a", fields([])).await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.text, "sim: a");
    assert_eq!(answer.reason, FinishReason::Error);
    let (name, message) = answer.error.unwrap();
    assert_eq!(name, "org.ganglion.Llm1.Error.EngineFailed");
    assert!(message.contains("not finite"), "{message}");

    let short = fields([("max_tokens", 2u32.into())]);
    let (_, stream) = ask(&client, "a", short).await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.reason, FinishReason::Length, "the daemon goes on");
}
