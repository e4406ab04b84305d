//! Sessions while the weights are released between their turns.

use super::sequences::{Model, NOWHERE, Place, Said, USER, client};

/// Returns the answers of an unnamed session and of a branch of it. With `unloads`, the weights are released before each turn
/// but the first.
pub(crate) async fn answers(model: &Model, unloads: bool) -> Vec<(String, Vec<u64>)> {
    let mut daemon = Place::new(model).start(NOWHERE).await;
    let opened = daemon.handle.open_session(client(USER), Vec::new());
    let session = opened.expect("there is room");
    let mut random = fastrand::Rng::with_seed(57);
    let mut answers = Vec::new();
    let mut branch = None;
    for turn in 0..8 {
        if unloads && turn > 0 {
            daemon.unload().await;
        }
        if turn == 5 {
            let branched = daemon.handle.branch(session, client(USER)).await;
            branch = Some(branched.expect("there is room"));
        }
        if turn == 6 {
            let rewound = daemon.handle.rewind(session, 2).await;
            rewound.expect("it has them");
        }
        let said = Said::some(&mut random, 8..16);
        let of = branch.filter(|_| turn % 2 == 1).unwrap_or(session);
        let answer = daemon.say(of, &said).await;
        let lost = answer.usage.cached_tokens == 0;
        assert!(lost || !unloads || turn == 0, "{:?}", answer.usage);
        answers.push((answer.text, answer.logits));
    }
    daemon.stop().await;
    answers
}

/// Compares the counts of the decode graph before and after an unload.
pub(crate) async fn graphs_survive(model: &Model) {
    let mut daemon = Place::new(model).start(NOWHERE).await;
    let opened = daemon.handle.open_session(client(USER), Vec::new());
    let session = opened.expect("there is room");
    let mut random = fastrand::Rng::with_seed(3);
    // Steps with guesses have more rows, and a graph for each number of them.
    let mut unguessed = || Said::some(&mut random, 1..2).unguessed();
    for _ in 0..3 {
        daemon.say(session, &unguessed()).await;
    }
    let before = daemon.handle.live().graph;
    assert!(before.counters.instantiations > 0, "{before:?}");
    for _ in 0..3 {
        daemon.unload().await;
        let idle = daemon.handle.live().graph;
        assert_eq!((idle.state, &*idle.reason), ("invalid", "unloaded"));
        for _ in 0..3 {
            daemon.say(session, &unguessed()).await;
        }
    }
    let after = daemon.handle.live().graph;
    assert_eq!(
        after.counters.instantiations, before.counters.instantiations,
        "{after:?}"
    );
    assert!(after.counters.recordings >= before.counters.recordings + 3);
    assert!(after.counters.updates >= before.counters.updates + 3);
    assert_eq!(after.counters.failures, 0);
    daemon.stop().await;
}
