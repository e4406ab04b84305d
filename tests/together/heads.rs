//! Guesses of a model's head change no answer, and it is loaded where the settings ask for it.

use std::time::Duration;

use ganglion::engine::{Message, Replaced, Role, State, worker};
use ganglion::guess::{Guess, Source};
use ganglion::guide::Grammar;
use ganglion::load::{self, Head, KvMemory, LoadError, OpenModel};
use ganglion::telemetry::Proposer;

use super::drafts::{USUAL_TEMPLATE, ask, golden, guess};
use super::engine::{Engine, TEMPLATE};
use super::guesses::{Counts, ask_all, ask_fitting, ask_guided, client, middle, options, talk};
use crate::head::model::{HIDDEN, Tensors, VOCABULARY, tensors, with_two_layers, writer};
use crate::support::tiny_gguf;

/// Returns the file of a model with a head, with a vocabulary.
pub(super) fn model() -> Vec<u8> {
    of(tensors())
}

fn of(tensors: Tensors) -> Vec<u8> {
    let mut gguf = writer(tensors);
    tiny_gguf::add_vocabulary(&mut gguf, 0, &[]);
    gguf.file()
}

/// Returns the same model, whose head lacks a tensor.
fn damaged() -> Vec<u8> {
    let mut all = tensors();
    let removed = all.remove("mtp.layers.0.mlp.up_proj.weight");
    removed.expect("the head has it");
    of(all)
}

/// Returns the same model, whose head guesses "a" or "b", by the sign of the first value of its hidden state.
fn of_two_letters() -> Vec<u8> {
    let mut all = tensors();
    let mut head = vec![0.0; VOCABULARY * HIDDEN];
    for (letter, weight) in [(b'a', 50.0), (b'b', -50.0)] {
        // Two control tokens come before those of bytes.
        head[(2 + usize::from(letter)) * HIDDEN] = weight;
    }
    let name = "mtp.shared_head.head.weight";
    all.insert(name.into(), (vec![VOCABULARY, HIDDEN], head));
    of(all)
}

/// Writes a model into a folder, with a chat template.
pub(super) fn folder(file: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tiny.gguf"), file).expect("it is written");
    std::fs::write(folder.path().join(TEMPLATE), USUAL_TEMPLATE).expect("it is written");
    folder
}

pub(super) fn with(head: Head) -> load::Settings {
    load::Settings {
        kv_memory: KvMemory::Conversations(8),
        rows: 8,
        head,
        ..Engine::settings()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_a_head_change_no_answer() {
    let folder = folder(&model());
    let without = Engine::with(folder.path(), with(Head::Off)).await;
    let engine = Engine::with(folder.path(), with(Head::Required)).await;
    let handle = &engine.handle;
    let always = guess(Source::Head, false);
    let few = Guess {
        most: 2,
        ..always.clone()
    };
    let auto = guess(Source::Any, true);
    let mut all = Counts::default();
    for users in [1, 2, 5, 8] {
        let (whole, _) = ask_all(&without.handle, users, &[], None).await;
        let stops = whole.iter().map(|answer| middle(&answer.text));
        let stops: Vec<_> = stops.take(users as usize / 2).collect();
        let (plain, _) = ask_all(&without.handle, users, &stops, None).await;
        for guess in [None, Some(&always), Some(&few), Some(&auto)] {
            let (answers, counts) = ask_all(handle, users, &stops, guess).await;
            assert_eq!(answers, plain, "{users} users, {guess:?}");
            println!("{users} users: {counts:?}");
            all.proposed += counts.proposed;
        }
        let (plain, _) = ask_guided(&without.handle, users, None).await;
        let (answers, _) = ask_guided(handle, users, Some(&always)).await;
        assert_eq!(answers, plain, "{users} users, guided");
    }
    assert!(all.proposed > 0);
    let of_head = handle.live().proposals.of(Proposer::Head);
    assert!(of_head.proposed > 0, "{of_head:?}");
    // Later turns, also after one was taken back.
    let plain = talk(&without.handle, 1, None).await;
    assert_eq!(talk(handle, 1, Some(&always)).await, plain);
}

/// A head guesses without the masks of guided answers, and its guesses that a grammar allows are used.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_a_head_change_no_guided_answer() {
    let folder = folder(&of_two_letters());
    let engine = Engine::with(folder.path(), with(Head::Required)).await;
    let handle = &engine.handle;
    let always = guess(Source::Head, false);
    let letters = |_| Grammar::Regex("[ab]{100}".into());
    let mut all = Counts::default();
    for users in [1, 4, 8] {
        let (plain, none) = ask_fitting(handle, users, None, letters).await;
        assert_eq!(none.proposed, 0);
        let (answers, counts) = ask_fitting(handle, users, Some(&always), letters).await;
        assert_eq!(answers, plain, "{users} users");
        println!("{users} users: {counts:?}");
        all.proposed += counts.proposed;
        all.accepted += counts.accepted;
    }
    assert!(all.accepted > 0, "{all:?}");
    let of_head = handle.live().proposals.of(Proposer::Head);
    assert_eq!(of_head.accepted, u64::from(all.accepted));
}

/// A cancelled answer changes none of the next one's guesses.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_leaves_the_head_as_it_was() {
    let folder = folder(&model());
    let engine = Engine::with(folder.path(), with(Head::Required)).await;
    let always = guess(Source::Head, false);
    let (plain, _) = ask(&engine, None).await;
    for _ in 0..20 {
        let asked = engine.handle.generate(
            client(1),
            vec![Message::new(Role::User, "hello")],
            options(1, None, Some(&always)),
        );
        let mut ticket = asked.await.expect("it is accepted");
        // The answer may have ended by then.
        ticket.events.recv().await.expect("it has an event");
        engine.handle.cancel(ticket.id);
        while ticket.events.recv().await.is_some() {}
    }
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!(text, plain);
    assert!(counts.proposed > 0, "{counts:?}");
}

/// The head is loaded, removed and loaded again with its model. A reload that changes nothing of it loads nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_comes_and_goes_by_its_setting() {
    let folder = folder(&model());
    let engine = Engine::with(folder.path(), with(Head::Off)).await;
    let handle = &engine.handle;
    let always = guess(Source::Head, false);
    let weights = || handle.status().borrow().memory.weights;
    let has_head = || handle.status().borrow().model.head;
    let (plain, _) = ask(&engine, None).await;
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!((text, counts.proposed), (plain.clone(), 0));
    let without = weights();
    let of = |head| worker::Settings {
        model: folder.path().join("tiny.gguf"),
        chat_template: Some(folder.path().join(TEMPLATE)),
        runner: with(head),
    };
    for (head, replaced) in [
        (Head::IfPresent, Replaced::Model),
        (Head::Required, Replaced::Nothing),
        (Head::Off, Replaced::Model),
        (Head::Required, Replaced::Model),
    ] {
        let done = handle.replace(of(head), Duration::ZERO).await;
        assert_eq!(done.expect("it is loaded"), replaced, "{head:?}");
        let (text, counts) = ask(&engine, Some(&always)).await;
        assert_eq!(text, plain, "{head:?}");
        assert_eq!(counts.proposed > 0, head.loads(), "{head:?}");
        assert_eq!(has_head(), head.loads());
        assert_eq!(weights() > without, head.loads());
    }
    handle.idle().await;
    handle.release().await.expect("nothing runs");
    assert_eq!(handle.status().borrow().state, State::Idle);
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!(text, plain);
    assert!(counts.proposed > 0);
}

/// The first of several layers guesses, and the journal says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_several_layers_guesses() {
    let folder = folder(&of(with_two_layers()));
    let engine = Engine::with(folder.path(), with(Head::Required)).await;
    let (plain, _) = ask(&engine, None).await;
    let (text, counts) = ask(&engine, Some(&guess(Source::Head, false))).await;
    assert_eq!(text, plain);
    assert!(counts.proposed > 0, "{counts:?}");
    let of_layers = |text: &String| text.contains("has 2 layers that guess tokens");
    let events = engine.journal.take().into_iter();
    let events = events.filter(|event| event.get("message").is_some_and(of_layers));
    assert_eq!(events.count(), 1);
}

/// With both, the draft model guesses, and the head only for those who ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_model_comes_before_the_head() {
    let folder = folder(&model());
    let draft = folder.path().join("draft.gguf");
    std::fs::write(&draft, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let settings = load::Settings {
        draft: Some(draft),
        ..with(Head::Required)
    };
    let engine = Engine::with(folder.path(), settings).await;
    let proposed = |proposer| engine.handle.live().proposals.of(proposer).proposed;
    let (plain, _) = ask(&engine, None).await;
    let (text, _) = ask(&engine, Some(&guess(Source::Any, false))).await;
    assert_eq!(text, plain);
    assert!(proposed(Proposer::Draft) > 0);
    assert_eq!(proposed(Proposer::Head), 0);
    let (text, _) = ask(&engine, Some(&guess(Source::Head, false))).await;
    assert_eq!(text, plain);
    assert!(proposed(Proposer::Head) > 0);
}

/// A setting that needs the head refuses a model without one, or says what its head lacks.
#[test]
fn a_model_without_the_head_that_it_needs_is_refused() {
    let folder = folder(&damaged());
    let check = |name: &str, head| {
        let path = match name {
            "damaged" => folder.path().join("tiny.gguf"),
            _ => golden(name),
        };
        let model = OpenModel::read(&path, None).expect("it can be served");
        let admitted = load::admit(&model.checkpoint, &with(head), load::Target::Cpu);
        let checked = model.check(None, &with(head));
        assert_eq!(admitted.is_ok(), checked.is_ok(), "{name}, {head:?}");
        checked
    };
    let error = check("tiny-granite", Head::Required).expect_err("it has no head");
    assert!(matches!(error, LoadError::NoHead { .. }), "{error:?}");
    let error = error.to_string();
    for part in ["tiny-granite", "model.q8_0.gguf", "engine.guess"] {
        assert!(error.contains(part), "{error}");
    }
    let error = check("damaged", Head::Required).expect_err("its head lacks a tensor");
    assert!(matches!(error, LoadError::Head { .. }), "{error:?}");
    let error = error.to_string();
    for part in ["tiny.gguf", "blk.4.ffn_up.weight", "engine.guess"] {
        assert!(error.contains(part), "{error}");
    }
    for name in ["tiny-granite", "damaged"] {
        check(name, Head::IfPresent).expect("it needs none");
        check(name, Head::Off).expect("it needs none");
    }
}

/// A head with a defect is left out where it is not needed, and the journal says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_head_is_left_out() {
    let folder = folder(&damaged());
    let engine = Engine::with(folder.path(), with(Head::IfPresent)).await;
    let (plain, _) = ask(&engine, None).await;
    let (text, counts) = ask(&engine, Some(&guess(Source::Head, false))).await;
    assert_eq!((text, counts.proposed), (plain, 0));
    let of_head = |text: &String| text.contains("blk.4.ffn_up.weight");
    let events = engine.journal.take().into_iter();
    let events = events.filter(|event| event.get("message").is_some_and(of_head));
    assert_eq!(events.count(), 1);
}
