//! A hot board: fewer rows run in a step, and no answer changes or is lost. Answers share the energy of the board.

use std::time::{Duration, Instant};

use ganglion::board::{Cause, Rules};
use ganglion::engine::{Handle, Priority, Ticket};

use super::asking::{ask, follow, sampled};
use super::engine::Engine;
use crate::support::tiny_gguf;

const USERS: u32 = 6;
const ROWS: usize = 2;
const WATTS: f64 = 10.0;
/// Rows of the steps that run or are launched when the limit changes.
const UNDER_WAY: u64 = 3 * 8;

/// Asks a long question of each user, and waits until each has some text of its answer.
async fn ask_all(engine: &Handle) -> Vec<(Ticket, String)> {
    let mut asked = Vec::new();
    for user in 0..USERS {
        let options = sampled(user, 200, Priority::Normal);
        asked.push(ask(engine, user, options).await);
    }
    for answer in &mut asked {
        let ended = follow(answer, false).await;
        assert!(ended.is_none(), "an answer is too short");
    }
    asked
}

/// Returns the tokens and the steps so far.
fn work(engine: &Handle) -> [u64; 2] {
    let live = engine.live();
    let counters = live.graph.counters;
    [live.tokens, counters.launches + counters.eager_steps]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_board_runs_fewer_rows_and_the_same_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::start(folder.path(), 8, 8).await;
    let handle = &engine.handle;
    let board = handle.board();
    board.set_rules(Rules {
        celsius: Some(80),
        rows: ROWS,
    });

    let mut expected = Vec::new();
    for mut answer in ask_all(handle).await {
        let outcome = follow(&mut answer, true).await.expect("its end");
        assert_eq!(outcome.usage.joules, None, "there is no sensor");
        expected.push(answer.1);
    }

    let engine = handle.clone();
    let begun = Instant::now();
    let sampler = tokio::spawn(async move {
        loop {
            engine.board().energy.sample(Instant::now(), WATTS);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let answers = ask_all(handle).await;
    board.publish(vec![Cause::Limit], true);
    let before = work(handle);
    let mut sum = 0.0;
    for (mut answer, expected) in answers.into_iter().zip(&expected) {
        let outcome = follow(&mut answer, true).await.expect("its end");
        assert_eq!(answer.1, *expected);
        let joules = outcome.usage.joules.expect("there is a sensor");
        assert!(joules > 0.0, "{joules}");
        sum += joules;
    }
    let [tokens, steps] = work(handle);
    let [tokens, steps] = [tokens - before[0], steps - before[1]];
    assert!(tokens > 10 * UNDER_WAY, "only {tokens} tokens");
    assert!(
        tokens <= ROWS as u64 * steps + UNDER_WAY,
        "{tokens} tokens in {steps} steps"
    );
    // Each joule is counted once.
    let whole = WATTS * begun.elapsed().as_secs_f64();
    assert!(sum <= whole, "{sum} of {whole} J");
    sampler.abort();

    // A cool board has more rows again. How many run at once depends on how fast the questions come.
    board.publish(Vec::new(), false);
    let before = work(handle);
    for mut answer in ask_all(handle).await {
        follow(&mut answer, true).await.expect("its end");
    }
    let [tokens, steps] = work(handle);
    let [tokens, steps] = [tokens - before[0], steps - before[1]];
    assert!(
        tokens > ROWS as u64 * steps,
        "{tokens} tokens in {steps} steps"
    );
}
