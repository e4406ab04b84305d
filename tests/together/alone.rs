//! Answers of many conversations at once are those that each has alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ganglion::engine::{Held, Replaced, worker};
use ganglion::guess::Source;
use ganglion::load::{self, Head};
use ganglion::runner::LostStates;

use super::drafts;
use super::engine::{Engine, TEMPLATE, hold_device, of_rows};
use super::heads;
use super::talk::{Logits, Step, Talk, program};
use crate::support::tiny_gguf;

const TURNS_BETWEEN_RELOADS: usize = 8;

const CONVERSATIONS: u32 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_many_at_once_are_those_of_each_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    hold_together(folder.path(), None, Head::Off).await;
}

/// The same with guesses of the model's head.
#[tokio::test(flavor = "multi_thread")]
async fn answers_with_a_head_are_those_of_each_alone() {
    let folder = heads::folder(&heads::model());
    hold_together(folder.path(), None, Head::Required).await;
}

/// The same with guesses of a draft model: of the same one, and of another.
#[tokio::test(flavor = "multi_thread")]
async fn answers_with_a_draft_model_are_those_of_each_alone() {
    for draft in ["tiny-granite", "tiny-smollm3"] {
        let folder = drafts::folder("tiny-granite", None);
        hold_together(folder.path(), Some(drafts::golden(draft)), Head::Off).await;
    }
}

/// The same with recurrent states, which rows of other requests, preemption and eviction must not change.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_a_recurrent_model_are_those_of_each_alone() {
    for name in ["tiny-qwen3_5", "tiny-lfm2"] {
        let folder = tempfile::tempdir().expect("a folder");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let model = golden.join(name).join("model.q8_0.gguf");
        std::fs::copy(model, folder.path().join("tiny.gguf")).expect("it is copied");
        // Prompts spell earlier answers apart from the beginning of a new one, so their tokens are encoded again: a replaced
        // model would not recognize those that a random model chose.
        let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}> {% endif %}";
        std::fs::write(folder.path().join(TEMPLATE), template).expect("it is written");
        let lost = hold_together(folder.path(), None, Head::Off).await;
        println!("{name}: {lost:?}");
        assert!(lost.idle > 0, "{name}: no slot lost its state");
    }
}

/// Has the head guess the answers that a draft model would guess.
fn guess_by_head(program: &mut [Step]) {
    for step in program {
        if let Step::Say { options, .. } = step
            && let Some(guess) = &mut options.guess
            && guess.source == Source::Draft
        {
            guess.source = Source::Head;
        }
    }
}

/// Runs with many or few rows and pages, and with priorities that preempt others. The logits of every chosen token have
/// the hashes that they have alone. `GANGLION_SEED` selects other programs. Returns the recurrent states that others
/// needed. If the head is loaded, it guesses the answers that a draft model would guess.
async fn hold_together(folder: &Path, draft: Option<PathBuf>, head: Head) -> LostStates {
    let [of_alone, of_together] = [(); 2].map(|()| Logits::default());
    let watched = |rows, whole, logits: &Logits| load::Settings {
        observer: Some(logits.observer()),
        // A new request can preempt a running step, and cannot preempt one that was launched ahead: both are compared.
        launch_ahead: whole > 1,
        draft: draft.clone(),
        head,
        ..of_rows(folder, rows, whole).runner
    };
    let alone = Engine::with(folder, watched(1, 1, &of_alone)).await;
    let seed = std::env::var("GANGLION_SEED").map_or(Ok(1600), |seed| seed.parse());
    let seed = seed.expect("GANGLION_SEED is a number");
    println!("GANGLION_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut made_way, mut lost) = (0, LostStates::default());
    let (mut accepted, mut wrong) = (0, 0);
    for (rows, whole) in [(8, 8), (4, 1), (2, 3), (3, 1), (8, 2)] {
        let settings = watched(rows, whole, &of_together);
        let together = Engine::with(folder, settings.clone()).await;
        let mut programs: Vec<_> = (0..CONVERSATIONS).map(|_| program(&mut random)).collect();
        if head.loads() {
            for program in &mut programs {
                guess_by_head(program);
            }
        }
        let (mut talks, turns) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for (user, program) in (0..).zip(programs.clone()) {
            let (handle, turns) = (together.handle.clone(), turns.clone());
            talks.push(tokio::spawn(async move {
                Talk::begin(&handle, user).run(program, turns).await
            }));
        }
        // From time to time the robot needs its device for other work.
        let handle = together.handle.clone();
        let holder = tokio::spawn(async move {
            for what in [Held::Background, Held::All].into_iter().cycle() {
                let hold = hold_device(&handle, what, "for a test");
                tokio::time::sleep(Duration::from_millis(3)).await;
                drop(hold);
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        });
        // If pages are not scarce, the model is reloaded while rows run. A prompt in progress begins again then: on a slow
        // machine no turn would end if reloads did not wait for some.
        let reloads = whole > 2;
        let handle = together.handle.clone();
        let mut next = worker::Settings {
            runner: settings,
            ..of_rows(folder, rows, whole)
        };
        let reloader = tokio::spawn(async move {
            // Equal settings would load nothing.
            let others = [(Duration::ZERO, 24), (Duration::from_millis(5), 16)];
            let mut reloaded_at = 0;
            for (drain, chunk) in others.into_iter().cycle().take_while(|_| reloads) {
                tokio::time::sleep(Duration::from_millis(150)).await;
                while turns.load(Relaxed) < reloaded_at + TURNS_BETWEEN_RELOADS {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                reloaded_at = turns.load(Relaxed);
                next.runner.prefill_chunk = chunk;
                let replaced = handle.replace(next.clone(), drain).await;
                assert_eq!(replaced.expect("it is loaded"), Replaced::Model);
            }
        });
        let mut ended = Vec::new();
        for talk in talks {
            ended.push(talk.await.expect("it ends"));
        }
        reloader.abort();
        if let Err(why) = reloader.await {
            assert!(!why.is_panic(), "{why}");
        }
        let mut equal = 0;
        for ((user, program), among) in (0..).zip(&programs).zip(ended) {
            let talk = Talk::begin(&alone.handle, user);
            equal += talk.hold(program, among).await;
        }
        holder.abort();
        assert!(equal > 40, "few were heard to their end: {equal}");
        together.handle.idle().await;
        // Every computation, including those of incomplete turns, is as alone.
        let (alone, together_saw) = (of_alone.take(), of_together.take());
        let others = together_saw.difference(&alone).count();
        assert_eq!(others, 0, "of {} rows of logits", together_saw.len());
        let rows = together_saw.len();
        assert!(rows > 500, "few rows of logits were seen: {rows}");
        if !reloads {
            made_way += together.made_way();
        }
        let guesses = together.handle.live().proposals.all();
        println!("{rows} rows of logits, {guesses:?}");
        accepted += guesses.accepted;
        wrong += guesses.proposed - guesses.accepted;
        let work = together.handle.live().work;
        assert_eq!(work.of, [0; 3]);
        lost.idle += work.lost_states.idle;
        lost.continued += work.lost_states.continued;
    }
    assert!(made_way > 0, "no request was evicted");
    // Those of random models are seldom right; `tests/rows.rs` has right ones.
    assert!(wrong > 50, "{accepted} guesses were right, {wrong} wrong");
    lost
}
