//! What waits for an engine thread that is busy, without one.

use super::*;
use crate::engine::{Codec, Handle, Inbox, Ticket, UserLimits, channel};

const CLIENT: fn() -> Client = || Client {
    name: ":1.1".into(),
    user: 1,
};

fn engine() -> (Handle, Inbox) {
    let user = UserLimits {
        requests: 8,
        sessions: 4,
        queue_percent: 100,
    };
    channel(Limits {
        requests: 8,
        queue: 8,
        sessions: 4,
        user,
    })
}

async fn send(engine: &Handle, session: SessionId) -> Ticket {
    let options = Options {
        max_tokens: 9,
        sampling: crate::sampler::Parameters::default(),
        stop: Vec::new(),
        thinking: None,
    };
    let sent = engine.send(session, "a b".into(), options).await;
    sent.expect("it is accepted")
}

fn turn(inbox: &Inbox) -> Turn {
    match inbox.next() {
        Some(Command::Turn(turn)) => turn,
        other => panic!("no turn: {other:?}"),
    }
}

fn answer(inbox: &Inbox) {
    let tokens = Some(vec![1, 2]);
    let answer = Answer {
        text: "a b".into(),
        tokens,
    };
    turn(inbox).finish(FinishReason::Stop, Usage::default(), Some(answer));
}

/// What waits besides turns, in order.
fn controls(engine: &Handle) -> Vec<String> {
    let waiting = engine.shared.queue.lock();
    let controls = waiting.controls.iter();
    controls.map(|control| format!("{control:?}")).collect()
}

/// Calls that no quota counts, behind a turn that runs for long: what they leave is bounded.
#[tokio::test]
async fn sessions_leave_little_for_an_engine_that_is_busy() {
    let (engine, inbox) = engine();
    let _ = inbox.ready(Codec::Words, 4096);
    let open = || engine.open_session(CLIENT(), None).expect("there is room");
    let (talks, runs) = (open(), open());
    for _ in 0..3 {
        let _ticket = send(&engine, talks).await;
        answer(&inbox);
    }
    let _ticket = send(&engine, runs).await;
    let running = turn(&inbox);

    // Each takes something back, and what is left of both is the least.
    let used = |session| engine.session(session).expect("it is open").context_used;
    engine.rewind(talks, 1).unwrap();
    let first = used(talks);
    engine.rewind(talks, 1).unwrap();
    let keep = used(talks);
    assert!(0 < keep && keep < first);
    let waits = format!("Rewind {{ session: {talks:?}, keep: {keep} }}");
    assert_eq!(controls(&engine), [waits]);
    for _ in 0..1000 {
        engine.rewind(talks, 0).unwrap();
        engine.clear_session(talks).unwrap();
    }
    let waits = format!("Rewind {{ session: {talks:?}, keep: 0 }}");
    assert_eq!(controls(&engine), [waits]);

    // Sessions that the engine has never seen, with and without a turn that waited.
    for _ in 0..1000 {
        engine.close_session(open());
        let session = open();
        let Ticket { id, cancel, .. } = send(&engine, session).await;
        engine.cancel(id, &cancel);
        engine.close_session(session);
    }
    assert_eq!(controls(&engine).len(), 1);
    engine.close_session(talks);
    engine.close_session(runs);
    let waits = [talks, runs].map(|session| format!("Forget({session:?})"));
    assert_eq!(controls(&engine), waits);
    running.finish(FinishReason::Cancelled, Usage::default(), None);
    assert_eq!(controls(&engine), waits, "each is forgotten once");
}

/// It runs although its session is gone: the engine is told when it has.
#[tokio::test]
async fn a_turn_that_outlives_its_session_is_forgotten_after_it() {
    let (engine, inbox) = engine();
    let session = engine.open_session(CLIENT(), None).expect("there is room");
    let _ticket = send(&engine, session).await;
    engine.close_session(session);
    assert_eq!(controls(&engine), [""; 0]);
    answer(&inbox);
    assert_eq!(controls(&engine), [format!("Forget({session:?})")]);
}
