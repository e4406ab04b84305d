//! Guesses of an assistant change no answer, and it is loaded, replaced and released together with its model.

use std::path::Path;
use std::time::Duration;

use ganglion::engine::{Replaced, State, worker};
use ganglion::guess::Source;
use ganglion::load::{self, Head, KvMemory};
use ganglion::telemetry::Proposer;

use super::drafts::{ask, folder, guess};
use super::engine::{Engine, TEMPLATE};
use super::guesses::{Counts, ask_all, ask_guided, middle, talk};
use crate::assistant::model;

fn with(assistant: Option<&Path>) -> load::Settings {
    load::Settings {
        kv_memory: KvMemory::Conversations(8),
        rows: 8,
        // Each byte of a question is a token.
        context: 512,
        draft: assistant.map(Path::to_owned),
        ..Engine::settings()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_an_assistant_change_no_answer() {
    let folder = folder("tiny-gemma4", None);
    let assistant = model::gguf(folder.path());
    let without = Engine::with(folder.path(), with(None)).await;
    let engine = Engine::with(folder.path(), with(Some(&assistant))).await;
    let handle = &engine.handle;
    // It is named as a draft model, and guesses as a head.
    let always = [Source::Draft, Source::Head].map(|source| guess(source, false));
    let auto = guess(Source::Any, true);
    let mut all = Counts::default();
    for users in [1, 2, 5, 8] {
        let (whole, _) = ask_all(&without.handle, users, &[], None).await;
        let stops = whole.iter().map(|answer| middle(&answer.text));
        let stops: Vec<_> = stops.take(users as usize / 2).collect();
        let (plain, _) = ask_all(&without.handle, users, &stops, None).await;
        for guess in [None, Some(&always[0]), Some(&always[1]), Some(&auto)] {
            let (answers, counts) = ask_all(handle, users, &stops, guess).await;
            assert_eq!(answers, plain, "{users} users, {guess:?}");
            println!("{users} users: {counts:?}");
            all.proposed += counts.proposed;
        }
        let (plain, _) = ask_guided(&without.handle, users, None).await;
        let (answers, _) = ask_guided(handle, users, Some(&always[0])).await;
        assert_eq!(answers, plain, "{users} users, guided");
    }
    assert!(all.proposed > 0);
    let of_head = handle.live().proposals.of(Proposer::Head);
    assert!(of_head.proposed > 0, "{of_head:?}");
    assert_eq!(handle.live().proposals.of(Proposer::Draft).proposed, 0);
    // Later turns, also after a rewind.
    let plain = talk(&without.handle, 1, None).await;
    assert_eq!(talk(handle, 1, Some(&always[0])).await, plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_comes_and_goes_with_its_model() {
    let folder = folder("tiny-gemma4", None);
    let assistant = model::gguf(folder.path());
    let engine = Engine::with(folder.path(), with(Some(&assistant))).await;
    let handle = &engine.handle;
    let always = guess(Source::Draft, false);
    let weights = || handle.status().borrow().memory.weights;
    let described = || {
        let status = handle.status();
        let status = status.borrow();
        (status.model.head, !status.model.draft.is_empty())
    };
    let (plain, _) = ask(&engine, None).await;
    let both = weights();
    assert_eq!(described(), (true, true));

    handle.idle().await;
    handle.release().await.expect("nothing runs");
    assert_eq!(handle.status().borrow().state, State::Idle);
    assert_eq!(weights(), 0);
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!((text, weights()), (plain.clone(), both));
    assert!(counts.proposed > 0);

    let of = |assistant: Option<&Path>, head| worker::Settings {
        model: folder.path().join("tiny.gguf"),
        chat_template: Some(folder.path().join(TEMPLATE)),
        runner: load::Settings {
            head,
            ..with(assistant)
        },
    };
    for (next, head, replaced, guesses) in [
        (Some(&*assistant), Head::Required, Replaced::Nothing, true),
        (None, Head::IfPresent, Replaced::Model, false),
        (Some(&*assistant), Head::Required, Replaced::Model, true),
    ] {
        let done = handle.replace(of(next, head), Duration::ZERO).await;
        assert_eq!(done.expect("it is loaded"), replaced, "{next:?}, {head:?}");
        let (text, counts) = ask(&engine, Some(&always)).await;
        assert_eq!(text, plain, "{next:?}");
        assert_eq!(counts.proposed > 0, guesses, "{next:?}");
        assert_eq!(weights() == both, guesses);
        assert_eq!(described(), (guesses, guesses));
    }
}
