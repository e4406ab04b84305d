//! The weights are released at random times, on a call, after a time and because memory is short. Answers stay as they are.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ganglion::engine::{FinishReason, Held, Options, Priority, Refusal, RequestError, State};
use ganglion::kv_store::HostRules;
use ganglion::load;
use ganglion::sampler::Parameters;

use super::asking::{ask, follow, questions, sampled};
use super::engine::{Engine, hold_device};
use super::talk::Talk;
use crate::support::daemon::eventually;
use crate::support::journal::Entry;
use crate::support::tiny_gguf;

/// Unloads of the long test; `GANGLION_UNLOADS` may set more. Then the memory of the process is compared, too: it must be
/// this test's alone.
const UNLOADS: usize = 50;
/// Bytes by which the memory of the process may grow from one tenth of the unloads to the end.
const GROWTH: u64 = 8 << 20;

fn model(folder: &Path) {
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.join("tiny.gguf"), model).expect("it is written");
}

async fn becomes(engine: &Engine, wanted: State) {
    let mut status = engine.handle.status();
    let reached = status.wait_for(|status| status.state == wanted);
    eventually(reached).await.expect("the engine lives");
}

/// Returns the resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is readable");
    ganglion::meminfo::bytes(&status, "VmRSS:").expect("it has it")
}

/// Random requests of several users while the weights are released again and again: each answer is as alone, and none is
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_unloads_change_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    model(folder.path());
    let alone = Engine::start(folder.path(), 1, 1).await;
    let together = Engine::start(folder.path(), 4, 8).await;
    let more = std::env::var("GANGLION_UNLOADS").ok();
    let unloads = more
        .as_ref()
        .map_or(UNLOADS, |more| more.parse().expect("a number"));
    let ends = Arc::new(AtomicBool::new(false));
    let talks: Vec<_> = (0..3)
        .map(|user| {
            let (engine, ends) = (together.handle.clone(), ends.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                let mut random = fastrand::Rng::with_seed(user.into());
                while !ends.load(Relaxed) {
                    let seed = user * 100 + random.u32(0..12);
                    let options = sampled(seed, 1 + seed as usize % 20, Priority::Normal);
                    let mut asked = ask(&engine, seed, options).await;
                    let outcome = follow(&mut asked, true).await.expect("its end");
                    answers.push((seed, asked.1, outcome.reason));
                    // Nobody asks for a moment, which is as random as the answers are long.
                    tokio::time::sleep(Duration::from_millis(random.u64(0..6))).await;
                }
                answers
            })
        })
        .collect();
    let (mut released, mut early) = (0, 0);
    while released < unloads {
        match together.handle.release().await {
            // It may have been released before: the journal has each time once.
            Ok(()) | Err(Refusal::Active { .. } | Refusal::NotReady(_)) => {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            Err(other) => panic!("{other}"),
        }
        let entries = together.journal.take();
        let is_release = |entry: &&Entry| entry.contains_key("released_bytes");
        released += entries.iter().filter(is_release).count();
        if released >= unloads / 10 && early == 0 {
            early = resident();
        }
    }
    ends.store(true, Relaxed);
    let mut answers = Vec::new();
    for talk in talks {
        answers.extend(talk.await.expect("no answer is lost"));
    }
    let late = resident();
    let answered = answers.len();
    for (seed, text, reason) in answers {
        let options = sampled(seed, 1 + seed as usize % 20, Priority::Normal);
        let mut asked = ask(&alone.handle, seed, options).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        assert_eq!((text, reason), (asked.1, outcome.reason), "seed {seed}");
    }
    println!("{released} unloads, {answered} answers; VmRSS {early}, then {late}");
    assert!(more.is_none() || late < early + GROWTH, "it has grown");
    assert_eq!(together.handle.accepted(), [0; 3]);
    assert_eq!(
        questions(&together.handle, 7).await,
        questions(&alone.handle, 7).await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_are_released_after_a_time_without_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    model(folder.path());
    let engine = Engine::start(folder.path(), 2, 2).await;
    let options = || sampled(1, 30, Priority::Normal);
    let mut first = ask(&engine.handle, 1, options()).await;
    follow(&mut first, true).await.expect("its end");
    engine.handle.unload_after(Duration::from_millis(1));
    becomes(&engine, State::Idle).await;
    // A request that a hold keeps off the device loads nothing.
    let hold = hold_device(&engine.handle, Held::All, "for a test");
    let mut blocked = ask(&engine.handle, 1, options()).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(engine.handle.status().borrow().state, State::Idle);
    // Its deadline ends one that waits.
    let late = Options {
        deadline: Some(Duration::from_millis(1)),
        ..options()
    };
    let mut late = ask(&engine.handle, 1, late).await;
    let outcome = follow(&mut late, true).await.expect("its end");
    assert_eq!(outcome.reason, FinishReason::Deadline);
    drop(hold);
    follow(&mut blocked, true).await.expect("its end");
    assert_eq!(blocked.1, first.1);
    becomes(&engine, State::Idle).await;
}

/// Under pressure, the cheapest memory goes first, and no active request loses its model.
#[tokio::test(flavor = "multi_thread")]
async fn pressure_releases_copies_then_pages_then_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    model(folder.path());
    let engine = Engine::start(folder.path(), 2, 4).await;
    engine.handle.keep_in_host(HostRules {
        bytes: 1 << 30,
        discrete: false,
        rest: Duration::ZERO,
        measured: false,
    });
    let talk = Talk::begin(&engine.handle, 1);
    let options = Options::new(40, Parameters::default());
    let say = async |text: &str| {
        let ticket = talk.say(text, &options).await.expect("it is accepted");
        talk.hear(ticket, usize::MAX).await
    };
    say(&"hello a robot ".repeat(20)).await;
    let live = || engine.handle.live().work;
    let copied = async {
        while live().pages_in_host == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    eventually(copied).await;
    engine.handle.relieve_memory();
    let dropped = async {
        while live().pages_in_host > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    eventually(dropped).await;
    assert!(engine.handle.status().borrow().memory.kv > 0);
    engine.handle.relieve_memory();
    let mut status = engine.handle.status();
    let released = status.wait_for(|status| status.memory.kv == 0);
    let seen = eventually(released).await.expect("the engine lives");
    assert_eq!(seen.state, State::Ready);
    assert!(seen.memory.weights > 0);

    let mut running = ask(&engine.handle, 2, sampled(2, 60, Priority::Realtime)).await;
    follow(&mut running, false).await;
    let hold = hold_device(&engine.handle, Held::All, "in the middle");
    let advanced = || engine.handle.progress().pulse().advanced;
    for _ in 0..8 {
        let before = advanced();
        engine.handle.relieve_memory();
        let obeyed = async {
            while advanced() < before + 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        eventually(obeyed).await;
        let refused = engine.handle.release().await;
        assert!(
            matches!(refused, Err(Refusal::Active { requests: 1 })),
            "{refused:?}"
        );
        assert_eq!(engine.handle.status().borrow().state, State::Ready);
    }
    drop(hold);
    follow(&mut running, true).await.expect("its end");

    let idle = async {
        while engine.handle.status().borrow().state != State::Idle {
            engine.handle.relieve_memory();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    eventually(idle).await;
    let (_, outcome, _) = say("a robot").await;
    assert_eq!((outcome.error, outcome.usage.cached_tokens), (None, 0));
    becomes(&engine, State::Ready).await;
}

/// A load that fails ends the requests that wait, with the reason. The next request tries again.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_is_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    model(folder.path());
    let meminfo = folder.path().join("meminfo");
    let has = |kilobytes: u64| {
        let text = format!("MemAvailable:   {kilobytes} kB\n");
        std::fs::write(&meminfo, text).expect("it is written");
    };
    has(1 << 20);
    let settings = load::Settings {
        meminfo: meminfo.clone(),
        groups: None,
        ..Engine::settings()
    };
    let engine = Engine::with(folder.path(), settings).await;
    let options = || sampled(1, 30, Priority::Normal);
    let mut first = ask(&engine.handle, 1, options()).await;
    follow(&mut first, true).await.expect("its end");
    let [here, away] = ["tiny.gguf", "elsewhere"].map(|name| folder.path().join(name));
    let fails = async || {
        let (mut ticket, _) = ask(&engine.handle, 1, options()).await;
        let event = eventually(ticket.events.recv()).await.expect("it ends");
        let ganglion::engine::Event::Done(outcome) = event else {
            panic!("{event:?}");
        };
        outcome.error.expect("an error")
    };
    engine.handle.release().await.expect("nothing runs");
    std::fs::rename(&here, &away).expect("it is moved");
    for _ in 0..2 {
        let error = fails().await;
        let RequestError::Refused(Refusal::NotReady(why)) = &error else {
            panic!("{error:?}");
        };
        assert!(why.contains("tiny.gguf"), "{why}");
        assert_eq!(engine.handle.status().borrow().state, State::Idle);
    }
    std::fs::rename(&away, &here).expect("it is moved");
    has(1);
    let error = fails().await;
    assert!(
        matches!(error, RequestError::Refused(Refusal::OutOfMemory(_))),
        "{error:?}"
    );
    has(1 << 20);
    let mut again = ask(&engine.handle, 1, options()).await;
    follow(&mut again, true).await.expect("its end");
    assert_eq!(again.1, first.1);
    let reported = |field: &str| {
        engine
            .journal
            .take()
            .iter()
            .any(|entry| entry.contains_key(field))
    };
    assert!(reported("released_bytes"));
}
