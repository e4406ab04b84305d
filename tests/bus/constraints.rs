//! Constrained answers, and the probabilities of their tokens, over the bus.

use ganglion::bus::{Error, Frame};
use ganglion::engine::Likelihood;
use zbus::Variant;

use super::{ask, fields};
use crate::support::daemon::until;
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_one_of_the_choices_and_contradicting_options_are_refused() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 200\n").await;
    let choices = ["turn left", "turn right", "halt"];
    for seed in 0..6u64 {
        let options = fields([
            ("choice", choices.to_vec().into()),
            ("temperature", 2.into()),
            ("seed", seed.into()),
            ("logprobs", 2u32.into()),
        ]);
        let (text, info) = client.manager.complete("hello", options).await.unwrap();
        assert!(choices.contains(&text.as_str()), "{text:?}");
        let Variant::Str(logprobs) = &*info["logprobs"] else {
            panic!("{info:?}");
        };
        let tokens: serde_json::Value = serde_json::from_str(logprobs).expect("JSON");
        let tokens = tokens.as_array().expect("an array");
        let said: String = tokens
            .iter()
            .filter_map(|one| one["text"].as_str())
            .collect();
        assert_eq!(said, text);
        assert!(
            tokens
                .iter()
                .all(|one| one["best"].as_array().map(Vec::len) == Some(2))
        );
    }

    let options = fields([
        ("json", true.into()),
        ("logprobs", 0u32.into()),
        ("max_tokens", 9u32.into()),
    ]);
    let (_, stream) = ask(&client, "hello", options).await.unwrap();
    let mut reader = Reader::new(stream);
    let (mut scored, mut tokens) = (0, None);
    while let Some(frame) = reader.next().await {
        match frame {
            Frame::Text { logprobs, .. } => {
                scored += logprobs.len();
                assert!(logprobs.iter().all(|one| one.best.is_empty()));
            }
            Frame::Reasoning { .. } | Frame::ToolCall { .. } => panic!("{frame:?}"),
            Frame::Done { usage, .. } => tokens = Some(usage.completion_tokens as usize),
        }
    }
    // All tokens apart from an end token.
    assert!(scored > 0 && tokens.is_some_and(|all| all == scored || all == scored + 1));

    // Without a pipe the result has the same probabilities.
    let options = |how| {
        let mut options = fields([("logprobs", 1u32.into()), ("max_tokens", 9u32.into())]);
        options.extend([("seed", 5u64.into()), ("temperature", 1.into()), how]);
        options
    };
    let message = [("user", fields([("content", "hello".into())]))];
    let submitted = options(("signals", false.into()));
    let submitted = client.manager.submit(&message, submitted).await.unwrap();
    let (streamed, _) = ask(&client, "hello", options(("stream", "signals".into())))
        .await
        .unwrap();
    let mut answers = Vec::new();
    for path in [submitted, streamed] {
        let request = client.request(path).await;
        until(async || request.state().await.unwrap() == "finished").await;
        let (text, ..) = request.read(0).await.unwrap();
        let result = request.result().await.unwrap();
        let logprobs = String::try_from(result["logprobs"].try_clone().unwrap()).unwrap();
        let each: Vec<Likelihood> = serde_json::from_str(&logprobs).expect("an array");
        assert!(each.iter().all(|one| one.best.len() == 1));
        // The text of a part of a character differs from that of the whole.
        let said: String = each.iter().map(|one| one.text.as_str()).collect();
        assert!(
            said.contains('\u{fffd}') || said == text,
            "{said:?} {text:?}"
        );
        answers.push(logprobs);
    }
    assert_eq!(answers[0], answers[1]);

    let regex = || ("regex", "a+".into());
    for (options, named) in [
        (fields([regex(), ("stop", "b".into())]), ["regex", "stop"]),
        (fields([regex(), ("json", true.into())]), ["regex", "json"]),
        (
            fields([("choice", vec![""].into())]),
            ["choice", "none empty"],
        ),
        (
            fields([("json_schema", "{\"contains\": {}}".into())]),
            ["json_schema", "contains"],
        ),
    ] {
        let refused = client.manager.complete("hello", options).await;
        let Err(Error::InvalidOption(why)) = &refused else {
            panic!("{refused:?}");
        };
        assert!(named.iter().all(|word| why.contains(word)), "{why}");
    }
}

/// A program that parses an answer need not know all finish reasons.
#[tokio::test(flavor = "multi_thread")]
async fn a_constrained_answer_that_was_cut_off_is_marked() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 200\n").await;
    let session = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(session).await;
    let short = || ("max_tokens", 4u32.into());
    let long = vec!["a long answer", "another of them"];
    for (options, cut) in [
        (fields([short(), ("choice", long.into())]), true),
        (fields([("choice", vec!["no", "yes"].into())]), false),
        (fields([short()]), false),
    ] {
        let mut same = fields([]);
        for (name, value) in &options {
            same.insert(name, value.try_clone().unwrap());
        }
        let (_, info) = client.manager.complete("hello", same).await.unwrap();
        let incomplete = info.get("incomplete").map(|value| bool::try_from(&**value));
        assert_eq!(incomplete, cut.then_some(Ok(true)), "{info:?}");

        let (_, stream) = session.send("hello", options).await.unwrap();
        let mut reader = Reader::new(stream);
        loop {
            if let Some(Frame::Done { incomplete, .. }) = reader.next().await {
                assert_eq!(incomplete, cut);
                break;
            }
        }
        until(async || !session.busy().await.unwrap()).await;
        let (_, said) = session.messages().await.unwrap().pop().unwrap();
        assert_eq!(said.contains_key("partial"), cut, "{said:?}");
    }
}
