//! Invalid input is refused with a helpful error, and the daemon continues.

use ganglion::bus::Error;
use ganglion::bus::proxy::Fields;
use zbus::Variant;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};
use crate::support::stream::Reader;

async fn still_answers(client: &Client) {
    let (_, stream) = ask(client, "hello", fields([])).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, "sim: hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_checked_each() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let too_many = vec!["x"; 17];
    let cases: [(&str, Variant<'_>, &str); 22] = [
        (
            "temprature",
            0.5.into(),
            "known are max_tokens, temperature",
        ),
        ("max_tokens", 0u32.into(), "from 1 to 4096"),
        ("max_tokens", 4097u32.into(), "from 1 to 4096"),
        ("max_tokens", (-1i32).into(), "from 1 to 4096"),
        (
            "max_tokens",
            "7".into(),
            "\"7\" (s); allowed is a whole number",
        ),
        ("temperature", 2.1.into(), "from 0 to 2"),
        ("temperature", f64::NAN.into(), "from 0 to 2"),
        (
            "temperature",
            true.into(),
            "true (b); allowed is a number (d",
        ),
        ("temperature", 3.into(), "3 (i); allowed"),
        ("repetition_penalty", 0u8.into(), "from 0.1 to 10"),
        (
            "stop",
            too_many.into(),
            "is 17 texts (as); allowed is up to 16",
        ),
        ("signals", true.into(), "known are max_tokens, temperature"),
        ("top_k", (-5i64).into(), "from 0 to 4294967295"),
        ("top_p", 1.5.into(), "from 0 to 1"),
        ("min_p", (-0.1).into(), "from 0 to 1"),
        ("repetition_penalty", 0.0.into(), "from 0.1 to 10"),
        ("seed", 1.5.into(), "allowed is a whole number"),
        ("stop", vec!["", "x"].into(), "none empty"),
        ("stop", vec![1u32].into(), "texts (s or as)"),
        ("thinking", 1u32.into(), "true or false (b)"),
        ("guess", "yes".into(), "true or false (b)"),
        ("stream", "tcp".into(), "\"pipe\" or \"signals\""),
    ];
    for (name, value, hint) in cases {
        let message = match ask(&client, "hello", fields([(name, value)])).await {
            Err(Error::InvalidOption(message)) => message,
            other => panic!("{name}: {other:?}"),
        };
        assert!(
            message.contains(name) && message.contains(hint),
            "{message}"
        );
    }
    let streamed = fields([("stream", "pipe".into())]);
    let refused = client.manager.complete("hello", streamed).await;
    assert!(
        matches!(refused, Err(Error::InvalidOption(_))),
        "{refused:?}"
    );
    let refused = client
        .manager
        .open_session(fields([("name", "../x".into())]))
        .await;
    assert!(
        matches!(refused, Err(Error::InvalidOption(_))),
        "{refused:?}"
    );

    let every = fields([
        ("max_tokens", 16u32.into()),
        ("temperature", 0.7.into()),
        ("top_k", 40i32.into()),
        ("top_p", 0.9.into()),
        ("min_p", 0.05.into()),
        ("repetition_penalty", 1.1.into()),
        ("seed", u64::MAX.into()),
        ("stop", "zz".into()),
        ("thinking", false.into()),
        ("guess", true.into()),
        ("stream", "pipe".into()),
    ]);
    ask(&client, "hello", every).await.unwrap();
    still_answers(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_integer_is_a_number() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    // The integer types that languages use for a plain 1.
    for one in [
        Variant::U8(1),
        1i16.into(),
        1u16.into(),
        1i32.into(),
        1u32.into(),
        1i64.into(),
        1u64.into(),
    ] {
        let names = [
            "temperature",
            "top_p",
            "min_p",
            "repetition_penalty",
            "top_k",
            "seed",
            "max_tokens",
        ];
        let options = names.map(|name| (name, one.try_clone().unwrap()));
        ask(&client, "hello", fields(options)).await.unwrap();
    }
    still_answers(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_checked_each() {
    let daemon = Daemon::start("context=100").await;
    let client = daemon.client().await;
    let content = |text: &'static str| fields([("content", text.into())]);
    let cases: Vec<(Vec<(&str, Fields<'_>)>, &str)> = vec![
        (vec![], "no messages"),
        (vec![("user", content(" \n"))], "empty"),
        (
            vec![("root", content("a"))],
            "known are system, user, assistant, tool",
        ),
        (vec![("user", fields([]))], "no \"content\""),
        (vec![("user", fields([("content", 1u32.into())]))], "type u"),
        (
            vec![(
                "user",
                fields([("content", "a".into()), ("name", "b".into())]),
            )],
            "unknown field \"name\"",
        ),
        (
            vec![(
                "user",
                fields([("partial", "yes".into()), ("content", "a".into())]),
            )],
            "its \"partial\" is of type s",
        ),
        (
            vec![("user", content("a")), ("assistant", content("b"))],
            "the last message is by \"assistant\"",
        ),
    ];
    for (messages, hint) in cases {
        match client.manager.generate(&messages, fields([])).await {
            Err(Error::InvalidMessages(message)) => assert!(message.contains(hint), "{message}"),
            other => panic!("{hint}: {other:?}"),
        }
    }
    let refused = client.manager.complete("", fields([])).await;
    assert!(
        matches!(refused, Err(Error::InvalidMessages(_))),
        "{refused:?}"
    );

    let long = "word ".repeat(100);
    match ask(&client, &long, fields([])).await {
        Err(Error::ContextFull(message)) => {
            assert!(
                message.contains("100 tokens and the context holds 100"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    let huge = "x".repeat(2 << 20);
    let refused = ask(&client, &huge, fields([])).await;
    assert!(
        matches!(refused, Err(Error::InvalidMessages(_))),
        "{refused:?}"
    );
    still_answers(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_signatures_and_names_get_the_standard_errors() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let manager = client.manager.inner();
    for (method, name) in [("Generate", "InvalidArgs"), ("Generated", "UnknownMethod")] {
        let error = manager
            .call_method(method, &(1u32, "two"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    for path in [
        "/org/ganglion/Llm1/session/1",
        "/org/ganglion/Llm1/request/1",
    ] {
        let session = client.session(path.try_into().unwrap()).await;
        assert!(session.close().await.is_err());
    }
    still_answers(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_busy_and_says_so() {
    let daemon = Daemon::start("first=3600s").await;
    let client = daemon.client().await;
    let mut streams = Vec::new();
    let message = loop {
        match ask(&client, "hello", fields([])).await {
            Ok((_, stream)) => streams.push(stream),
            Err(Error::Busy(message)) => break message,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(message.contains("queue.capacity"), "{message}");
    // Eight wait, and one may have started to run.
    assert!((8..=9).contains(&streams.len()), "{}", streams.len());
}
