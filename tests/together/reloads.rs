//! Reloads of the model while answers run.

use std::time::Duration;

use ganglion::engine::{Event, Held, Options, Priority};
use ganglion::kv::KvType;
use ganglion::load;
use ganglion::sampler::Parameters;

use super::asking::{ask, follow, questions, sampled};
use super::engine::{Engine, another, hold_device, of_rows};
use super::talk::Talk;
use crate::support::tiny_gguf;

/// An answer that outlasts the drain deadline continues with the new model at its position. Until then no request
/// starts except `realtime`.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_continues_running_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let Engine { handle, .. } = &Engine::start(folder.path(), 4, 8).await;
    let mut alone = Vec::new();
    for user in 0..40 {
        let mut asked = ask(handle, user, sampled(user, 150, Priority::Background)).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        if outcome.usage.completion_tokens == 150 {
            alone.push((user, asked.1));
        }
    }
    assert!(alone.len() >= 3, "few answers are long: {}", alone.len());
    alone.truncate(3);
    for (drain, context) in [(Duration::ZERO, 320), (Duration::from_secs(3600), 256)] {
        let mut running = Vec::new();
        for (user, _) in &alone {
            running.push(ask(handle, *user, sampled(*user, 150, Priority::Background)).await);
        }
        for asked in &mut running {
            follow(asked, false).await;
        }
        let hold = hold_device(handle, Held::Background, "in the middle");
        let (engine, settings) = (handle.clone(), another(folder.path(), 4, context));
        let replacing = tokio::spawn(async move { engine.replace(settings, drain).await });
        if drain.is_zero() {
            replacing.await.expect("it ends").expect("it is loaded");
            drop(hold);
        } else {
            // Idle requests delay the new model, and no urgent request.
            for user in 50..60 {
                let mut urgent = ask(handle, user, sampled(user, 3, Priority::Realtime)).await;
                follow(&mut urgent, true).await.expect("its end");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(!replacing.is_finished(), "no request ran");
            drop(hold);
            replacing.await.expect("it ends").expect("it is loaded");
        }
        for ((user, alone), asked) in alone.iter().zip(&mut running) {
            follow(asked, true).await.expect("its end");
            assert_eq!((user, &asked.1), (user, alone), "{drain:?}");
        }
    }
}

/// A reload finishes whatever step the last answer ends at, also if memory was released at that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_finishes_however_the_last_answer_ends() {
    const TOKENS: usize = 150;
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let settings = |context| {
        let mut settings = another(folder.path(), 4, context);
        settings.runner.kv_rest = Duration::ZERO;
        settings
    };
    let engine = Engine::with(folder.path(), settings(256).runner).await;
    let handle = &engine.handle;
    let mut long = Vec::new();
    for user in 0..60 {
        let mut asked = ask(handle, user, sampled(user, TOKENS, Priority::Normal)).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        if outcome.usage.completion_tokens as usize == TOKENS {
            long.push(user);
        }
    }
    let [last, others @ ..] = &long[..] else {
        panic!("no answer is long");
    };
    assert!(others.len() >= 3, "few answers are long: {long:?}");
    for outlives in 0..32 {
        let options = sampled(*last, TOKENS, Priority::Normal);
        let scored = Parameters {
            logprobs: Some(0),
            ..options.sampling
        };
        let asked = ask(
            handle,
            *last,
            Options {
                sampling: scored,
                ..options
            },
        )
        .await;
        let (mut ticket, mut said) = (asked.0, 0);
        while said < 3 {
            let event = ticket.events.recv().await.expect("it goes on");
            said += usize::from(matches!(event, Event::Likelihood(_)));
        }
        let hold = hold_device(handle, Held::All, "in the middle");
        let (engine, next) = (handle.clone(), settings([320, 256][outlives % 2]));
        let drain = Duration::from_secs(3600);
        let replacing = tokio::spawn(async move { engine.replace(next, drain).await });
        // It is loaded in the meantime, and waits for the answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        while let Ok(event) = ticket.events.try_recv() {
            said += usize::from(matches!(event, Event::Likelihood(_)));
        }
        let tokens = (TOKENS - said).saturating_sub(outlives).max(1);
        let mut urgent = Vec::new();
        for user in &others[..3] {
            urgent.push(ask(handle, *user, sampled(*user, tokens, Priority::Realtime)).await);
        }
        drop(hold);
        let replaced = tokio::time::timeout(Duration::from_secs(60), replacing).await;
        let replaced = replaced.unwrap_or_else(|_| panic!("it waits, {outlives} tokens later"));
        replaced.expect("it ends").expect("it is loaded");
    }
}

/// Cached pages survive a reload of the same model with the same results. They do not survive another cache type.
#[tokio::test(flavor = "multi_thread")]
async fn pages_survive_a_reload_of_the_same_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let changes: [fn(&mut load::Settings); 3] = [
        |_| (),
        |to| (to.context, to.rows) = (320, 3),
        |to| (to.context, to.kv_type) = (320, KvType::Q8_0.into()),
    ];
    let mut answers = Vec::new();
    for change in changes {
        let engine = Engine::start(folder.path(), 4, 4).await;
        let talk = Talk::begin(&engine.handle, 1);
        let say = |text: &'static str| {
            let options = sampled(1, 30, Priority::Normal);
            let options = Options {
                sampling: Parameters {
                    logprobs: Some(20),
                    ..options.sampling
                },
                ..options
            };
            let talk = &talk;
            async move {
                let ticket = talk.say(text, &options).await.expect("it is accepted");
                talk.hear(ticket, usize::MAX).await
            }
        };
        say("hello a robot hello a robot").await;
        let mut settings = of_rows(folder.path(), 4, 4);
        change(&mut settings.runner);
        let replaced = engine.handle.replace(settings, Duration::ZERO).await;
        replaced.expect("it is loaded");
        let (text, outcome, logprobs) = say("a robot").await;
        answers.push((outcome.usage.cached_tokens, text, logprobs));
    }
    let [stayed, same, other] = &answers[..] else {
        panic!("three were asked");
    };
    assert!(stayed.0 > 20, "{stayed:?}");
    assert_eq!(same, stayed);
    assert_eq!(other.0, 0);
    assert_ne!(
        other.2, stayed.2,
        "the type of the cache makes no difference"
    );
}

/// Reloads at random times while rows run: each answer is as alone.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_reloads_change_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let alone = Engine::start(folder.path(), 1, 1).await;
    let together = Engine::start(folder.path(), 4, 8).await;
    let talks: Vec<_> = (0..8)
        .map(|user| {
            let engine = together.handle.clone();
            tokio::spawn(async move { questions(&engine, user).await })
        })
        .collect();
    let mut reloads = 0;
    while talks.iter().any(|talk| !talk.is_finished()) {
        let context = [256, 320][reloads % 2];
        let settings = another(folder.path(), 2 + reloads % 3, context);
        let drain = Duration::from_millis([0, 0, 5][reloads % 3]);
        let replaced = together.handle.replace(settings, drain).await;
        replaced.expect("it is loaded");
        reloads += 1;
    }
    assert!(reloads > 1, "{reloads} reloads");
    for (user, talk) in (0..).zip(talks) {
        let among = talk.await.expect("it ends");
        assert_eq!(among, questions(&alone.handle, user).await, "user {user}");
    }
}
