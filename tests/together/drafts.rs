//! Guesses of a draft model change no answer, and it is loaded, replaced and released together with its model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ganglion::engine::{Message, Replaced, Role, State, worker};
use ganglion::guess::{Guess, MOST_GUESSES, Source};
use ganglion::guide::Grammar;
use ganglion::kv::Wanted;
use ganglion::load::{self, KvMemory, LoadError, MemoryRefusal, OpenModel, open_draft};
use ganglion::model::Checkpoint;
use ganglion::runner::Trial;
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;
use ganglion::telemetry::Proposer;

use super::engine::{Engine, TEMPLATE};
use super::guesses::{
    Counts, ask_all, ask_fitting, ask_guided, client, hear, middle, options, talk,
};
use crate::support::tiny_gguf;

/// A chat template that spells earlier answers apart from the beginning of a new one.
pub(super) const USUAL_TEMPLATE: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                                         {% if add_generation_prompt %}> {% endif %}";

/// Returns the file of a golden model. Most of them have the same vocabulary.
pub(super) fn golden(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(name).join("model.q8_0.gguf")
}

/// Writes a golden model into a folder, with a chat template.
pub(super) fn folder(name: &str, template: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(golden(name), folder.path().join("tiny.gguf")).expect("it is copied");
    let template = template.unwrap_or(USUAL_TEMPLATE);
    std::fs::write(folder.path().join(TEMPLATE), template).expect("it is written");
    folder
}

/// Settings with a draft model.
fn with(draft: &str) -> load::Settings {
    load::Settings {
        kv_memory: KvMemory::Conversations(8),
        rows: 8,
        draft: Some(golden(draft)),
        ..Engine::settings()
    }
}

pub(super) fn guess(source: Source, is_auto: bool) -> Guess {
    Guess {
        source,
        most: MOST_GUESSES,
        is_auto,
    }
}

/// Asks for a greedy answer whose whole conversation is read at once.
pub(super) async fn ask(engine: &Engine, guess: Option<&Guess>) -> (String, Counts) {
    let options = options(1, None, guess);
    let question = vec![Message::new(Role::User, "hello")];
    let asked = engine.handle.generate(client(1), question, options).await;
    let (answer, outcome) = hear(asked.expect("it is accepted")).await;
    let counts = Counts {
        proposed: outcome.usage.proposed_tokens,
        accepted: outcome.usage.accepted_tokens,
    };
    (answer.text, counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_a_draft_model_change_no_answer() {
    for (model, draft) in [
        ("tiny-granite", "tiny-granite"),
        ("tiny-granite", "tiny-smollm3"),
        // Layers that see a window.
        ("tiny-gemma3", "tiny-gemma3"),
        ("tiny-qwen3_5", "tiny-smollm3"),
    ] {
        let folder = folder(model, None);
        let engine = Engine::with(folder.path(), with(draft)).await;
        let handle = &engine.handle;
        let always = guess(Source::Draft, false);
        let few = Guess {
            most: 2,
            ..always.clone()
        };
        let auto = guess(Source::Any, true);
        let mut all = Counts::default();
        for users in [1, 2, 5, 8] {
            let (whole, _) = ask_all(handle, users, &[], None).await;
            let stops = whole.iter().map(|answer| middle(&answer.text));
            let stops: Vec<_> = stops.take(users as usize / 2).collect();
            let (plain, _) = ask_all(handle, users, &stops, None).await;
            for guess in [&always, &few, &auto] {
                let (answers, counts) = ask_all(handle, users, &stops, Some(guess)).await;
                assert_eq!(answers, plain, "{model}, {draft}, {users} users, {guess:?}");
                println!("{model}, {draft}, {users} users: {counts:?}");
                all.proposed += counts.proposed;
                all.accepted += counts.accepted;
            }
        }
        assert!(all.proposed > 0, "{model}, {draft}");
        // Later turns, also after one was taken back.
        let plain = talk(handle, 1, None).await;
        assert_eq!(
            talk(handle, 2, Some(&always)).await,
            plain,
            "{model}, {draft}"
        );
    }
}

/// A draft model guesses without the masks of guided answers, and its guesses that a grammar allows are used.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_a_draft_model_change_no_guided_answer() {
    let folder = folder("tiny-granite", None);
    let engine = Engine::with(folder.path(), with("tiny-granite")).await;
    let handle = &engine.handle;
    let always = guess(Source::Draft, false);
    let text = |_| Grammar::Regex("(.|\n)*".into());
    let mut all = Counts::default();
    for users in [1, 3, 8] {
        let (plain, none) = ask_guided(handle, users, None).await;
        assert_eq!(none.proposed, 0);
        let (answers, _) = ask_guided(handle, users, Some(&always)).await;
        assert_eq!(answers, plain, "{users} users");
        let (plain, _) = ask_fitting(handle, users, None, text).await;
        let (answers, counts) = ask_fitting(handle, users, Some(&always), text).await;
        assert_eq!(answers, plain, "{users} users, any text");
        println!("{users} users: {counts:?}");
        all.proposed += counts.proposed;
        all.accepted += counts.accepted;
    }
    assert!(all.accepted > 0, "{all:?}");
}

/// A model guesses its own greedy answers.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_model_guesses_nearly_all() {
    let folder = folder("tiny-granite", None);
    let engine = Engine::with(folder.path(), with("tiny-granite")).await;
    let (plain, none) = ask(&engine, None).await;
    assert_eq!(none.proposed, 0);
    let (text, counts) = ask(&engine, Some(&guess(Source::Draft, false))).await;
    assert_eq!(text, plain);
    assert!(counts.proposed >= 20, "{counts:?}");
    assert!(10 * counts.accepted > 9 * counts.proposed, "{counts:?}");
    let live = engine.handle.live();
    let of_draft = live.proposals.of(Proposer::Draft);
    assert_eq!(of_draft, live.proposals.all());
    assert_eq!(of_draft.proposed, u64::from(counts.proposed));
}

/// A caller can end the steps of a draft model. The guesses so far are kept.
#[test]
fn steps_of_a_draft_model_end_early() {
    let checkpoint = Checkpoint::open(&golden("tiny-granite")).expect("golden data");
    let settings = load::Settings {
        kv_memory: KvMemory::Conversations(4),
        rows: 4,
        ..Engine::settings()
    };
    let runner = &mut load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it loads");
    let tokens: Vec<u32> = (0..20).map(|at| at * 37 % 256).collect();
    let mut guesses = |user, passes| {
        let wanted = Wanted::without_answers(&tokens);
        let joined = runner.join(None, user, wanted, Parameters::default(), 64);
        let (slot, _) = joined.expect("it joins");
        runner.turn_to(slot);
        let first = runner.prefill(&tokens[..16], Ending::Kv);
        first.expect("it is read");
        let trial = Trial {
            slot,
            tokens: tokens[16..19].to_vec(),
            most: 4,
        };
        let mut launches = 0;
        let mut is_over = || {
            launches += 1;
            launches > passes
        };
        let chosen = runner.draft_until(&[trial], &mut is_over);
        runner.leave(slot);
        chosen.expect("it steps").remove(0)
    };
    let all = guesses(1, 4);
    assert_eq!(all.len(), 4);
    for (user, passes) in (2..).zip(0..4) {
        assert_eq!(guesses(user, passes), all[..passes], "{passes} passes");
    }
}

/// A draft model that fails is switched off, and the answers are the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_draft_model_is_switched_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), &file).expect("it is written");
    // The last tensor is a norm.
    let end = file.len();
    file[end - 64..].fill(0xff);
    let damaged = folder.path().join("damaged.gguf");
    std::fs::write(&damaged, file).expect("it is written");
    let settings = load::Settings {
        draft: Some(damaged),
        ..with("tiny-granite")
    };
    let engine = Engine::with(folder.path(), settings).await;
    let weights = || engine.handle.status().borrow().memory.weights;
    let both = weights();
    let (plain, _) = ask(&engine, None).await;
    for _ in 0..2 {
        let (text, counts) = ask(&engine, Some(&guess(Source::Draft, false))).await;
        assert_eq!((text, counts.proposed), (plain.clone(), 0));
    }
    let of_draft = |text: &String| text.contains("the draft model is switched off");
    let events = engine.journal.take().into_iter();
    let events = events.filter(|event| event.get("message").is_some_and(of_draft));
    assert_eq!(events.count(), 1);
    assert!(weights() < both);
}

/// A cancelled answer frees the draft model's sequence for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_leaves_nothing_behind() {
    let folder = folder("tiny-granite", None);
    let engine = Engine::with(folder.path(), with("tiny-granite")).await;
    let always = guess(Source::Draft, false);
    let (plain, _) = ask(&engine, None).await;
    for _ in 0..40 {
        let asked = engine.handle.generate(
            client(1),
            vec![Message::new(Role::User, "hello")],
            options(1, None, Some(&always)),
        );
        let mut ticket = asked.await.expect("it is accepted");
        ticket.events.recv().await.expect("it has a token");
        engine.handle.cancel(ticket.id);
        hear(ticket).await;
    }
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!(text, plain);
    assert!(counts.proposed >= 20, "{counts:?}");
}

/// The draft model is loaded, replaced and released together with its model.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_model_comes_and_goes_with_its_model() {
    let folder = folder("tiny-granite", None);
    let engine = Engine::with(folder.path(), with("tiny-granite")).await;
    let handle = &engine.handle;
    let always = guess(Source::Draft, false);
    let weights = || handle.status().borrow().memory.weights;
    let (plain, _) = ask(&engine, None).await;
    let both = weights();

    handle.idle().await;
    handle.release().await.expect("nothing runs");
    assert_eq!(handle.status().borrow().state, State::Idle);
    assert_eq!(weights(), 0);
    let (text, counts) = ask(&engine, Some(&always)).await;
    assert_eq!((text, weights()), (plain.clone(), both));
    assert!(counts.proposed > 0);

    let of = |draft: Option<&str>| worker::Settings {
        model: folder.path().join("tiny.gguf"),
        chat_template: Some(folder.path().join(TEMPLATE)),
        runner: load::Settings {
            draft: draft.map(golden),
            ..with("tiny-granite")
        },
    };
    let replaced = handle
        .replace(of(Some("tiny-granite")), Duration::ZERO)
        .await;
    assert_eq!(replaced.expect("nothing differs"), Replaced::Nothing);
    for (draft, guesses) in [(Some("tiny-smollm3"), true), (None, false)] {
        let replaced = handle.replace(of(draft), Duration::ZERO).await;
        assert_eq!(replaced.expect("it is loaded"), Replaced::Model);
        let (text, counts) = ask(&engine, Some(&always)).await;
        assert_eq!(text, plain, "{draft:?}");
        assert_eq!(counts.proposed > 0, guesses, "{draft:?}");
    }
    assert!(weights() < both);
}

/// Opens a draft model for a model.
fn opened(model: &Path, draft: &Path) -> Result<(), LoadError> {
    let language = OpenModel::read(model, None)?.language;
    let settings = load::Settings {
        draft: Some(draft.to_owned()),
        ..Engine::settings()
    };
    open_draft(model, &language, &settings).map(drop)
}

#[test]
fn a_draft_model_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = [("one.gguf", 0), ("other.gguf", 1)].map(|(name, first_byte)| {
        let path = folder.path().join(name);
        let model = tiny_gguf::speaking("tiny", first_byte).file();
        std::fs::write(&path, model).expect("it is written");
        path
    });
    opened(&one, &one).expect("it is the same");
    let error = opened(&one, &other).expect_err("its bytes are elsewhere");
    assert!(
        matches!(error, LoadError::DraftVocabulary { .. }),
        "{error:?}"
    );
    let error = error.to_string();
    for part in ["one.gguf", "other.gguf", "token 2 ", "draft.model"] {
        assert!(error.contains(part), "{error}");
    }
    let error = opened(&golden("tiny-granite"), &golden("tiny-qwen3_5"));
    let error = error.expect_err("it has recurrent layers");
    assert!(
        matches!(error, LoadError::DraftRecurrent { .. }),
        "{error:?}"
    );
    let error = opened(&one, &folder.path().join("none.gguf")).expect_err("there is no file");
    assert!(error.to_string().contains("draft.model"), "{error}");
}

/// A model that fits alone is refused with a draft model that does not fit beside it.
#[test]
fn both_are_admitted_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let meminfo = folder.path().join("meminfo");
    let admit = |kilobytes: u64, draft: Option<&str>| {
        let text = format!("MemAvailable:   {kilobytes} kB\n");
        std::fs::write(&meminfo, text).expect("it is written");
        let settings = load::Settings {
            meminfo: meminfo.clone(),
            groups: None,
            reserve: 0,
            draft: draft.map(golden),
            ..with("tiny-granite")
        };
        let model = OpenModel::read(&golden("tiny-granite"), None).expect("it is right");
        load::admit(&model.checkpoint, &settings, load::Target::Cpu)
    };
    let plenty = 1 << 30;
    let bytes = |draft| {
        let admitted = admit(plenty, draft).expect("there is plenty");
        admitted.estimate.bytes()
    };
    let (alone, both) = (bytes(None), bytes(Some("tiny-smollm3")));
    assert!(both > alone);
    let between = alone.midpoint(both) >> 10;
    admit(between, None).expect("it fits alone");
    let error = admit(between, Some("tiny-smollm3")).expect_err("both do not fit");
    let LoadError::Memory(MemoryRefusal::WithDraft {
        model_bytes, bytes, ..
    }) = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!([*model_bytes, model_bytes + bytes], [alone, both]);
    let error = error.to_string();
    for part in ["tiny-granite", "tiny-smollm3", "draft.model"] {
        assert!(error.contains(part), "{error}");
    }
}
