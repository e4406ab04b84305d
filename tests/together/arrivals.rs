//! A request that arrives while the device makes guesses for others ends these guesses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ganglion::engine::{Message, Options, Role};
use ganglion::guess::{Custom, Guess, MOST_GUESSES, Source};
use ganglion::load::{self, Head};
use ganglion::telemetry::Proposer;
use tokio::runtime;

use super::drafts::guess;
use super::engine::Engine;
use super::guesses::{client, hear, options};
use super::heads::{folder, model, with};
use crate::support::tiny_gguf;

/// Every eighth step has an arrival before it. More frequent arrivals would fill all rows.
const EVERY: usize = 8;

/// In some steps of two answers a request arrives before the device guesses for the second one.
#[tokio::test(flavor = "multi_thread")]
async fn an_arrival_ends_the_guesses_of_a_step() {
    let folder = folder(&model());
    let draft = folder.path().join("draft.gguf");
    std::fs::write(&draft, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let settings = load::Settings {
        draft: Some(draft),
        ..with(Head::Required)
    };
    let engine = Engine::with(folder.path(), settings).await;
    let question = || vec![Message::new(Role::User, "hello")];
    for (source, proposer) in [
        (Source::Head, Proposer::Head),
        (Source::Draft, Proposer::Draft),
    ] {
        // The guesses of the device before each step.
        let proposed = Arc::new(Mutex::new(Vec::new()));
        let arriving = {
            let (handle, proposed) = (engine.handle.clone(), proposed.clone());
            let (runtime, tickets) = (runtime::Handle::current(), Mutex::new(Vec::new()));
            let users = AtomicU32::new(100);
            Custom::new(move |_, _| {
                let mut proposed = proposed.lock().expect("no test has failed");
                let arrives = proposed.len().is_multiple_of(EVERY);
                proposed.push(handle.live().proposals.of(proposer).proposed);
                if arrives {
                    let user = users.fetch_add(1, Ordering::Relaxed);
                    let options = Options {
                        max_tokens: 1,
                        ..options(1, None, None)
                    };
                    let asked = handle.generate(client(user), question(), options);
                    let asked = runtime.block_on(asked).expect("it is accepted");
                    tickets.lock().expect("no test has failed").push(asked);
                }
                Vec::new()
            })
        };
        let arriving = Guess {
            source: Source::Custom(arriving),
            most: MOST_GUESSES,
            is_auto: false,
        };
        let mut asked = Vec::new();
        for (user, guess) in [(2, guess(source, false)), (1, arriving)] {
            let options = options(user, None, Some(&guess));
            let ticket = engine.handle.generate(client(user), question(), options);
            asked.push(ticket.await.expect("it is accepted"));
        }
        for ticket in asked {
            hear(ticket).await;
        }
        let proposed = proposed.lock().expect("no test has failed");
        let grown = proposed.windows(2).map(|pair| pair[1] - pair[0]);
        let (mut arrived, mut others) = (0, 0);
        for (step, grown) in grown.enumerate() {
            if step.is_multiple_of(EVERY) {
                arrived += grown;
            } else {
                others += grown;
            }
        }
        assert_eq!(arrived, 0, "{proposer:?}: {proposed:?}");
        assert!(others > 0, "{proposer:?}: {proposed:?}");
    }
}
