//! A session of a connection ends with the connection: it has no file, and its pages are restored from the host's
//! memory.

use std::time::Duration;

use ganglion::kv::PAGE;

use super::sequences::{Answer, Model, NOWHERE, Place, Said, USER, client, keep_in_host};

/// Returns the answers of an unnamed session. With `evicts` it loses its pages between two turns, once they are in the
/// host's memory.
pub(crate) async fn of_a_connection(model: &Model, evicts: bool) -> Vec<(String, Vec<u64>)> {
    let mut daemon = Place::new(model).start(NOWHERE).await;
    keep_in_host(&daemon, evicts);
    let opened = daemon.handle.open_session(client(USER), Vec::new());
    let session = opened.expect("there is room");
    let mut random = fastrand::Rng::with_seed(1);
    let mut answers = Vec::new();
    for _ in 0..5 {
        let said = Said::some(&mut random, 16..24);
        let answer = daemon.say(session, &said).await;
        answers.push((answer.text, answer.logits));
    }
    if evicts {
        while daemon.handle.live().work.pages_in_host == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        daemon.evict().await;
    }
    let said = Said::some(&mut random, 1..4);
    let Answer {
        text,
        logits,
        usage,
    } = daemon.say(session, &said).await;
    assert!(!evicts || usage.restored as usize >= PAGE);
    answers.push((text, logits));
    // The branch shares only the prefix of the session so far.
    let branch = daemon.handle.branch(session, client(USER)).await;
    let branch = branch.expect("there is room");
    if evicts {
        daemon.evict().await;
    }
    let said = Said::some(&mut random, 1..4);
    let answer = daemon.say(branch, &said).await;
    assert!(!evicts || answer.usage.restored as usize >= PAGE);
    answers.push((answer.text, answer.logits));
    daemon.handle.close_session(branch);
    daemon.handle.close_session(session);
    daemon.stop().await;
    answers
}
