//! What waits for an engine thread that is busy, without one.

use std::sync::mpsc;

use super::*;
use crate::engine::schedule::{Asks, preempts};
use crate::engine::{Answer, Role};
use crate::engine::{
    Client, Codec, Event, FinishReason, Handle, Hold, Inbox, Message, Options, Share, Ticket,
    UserLimits, channel,
};

const CLIENT: fn() -> Client = || Client {
    name: ":1.1".into(),
    user: 1,
};

fn engine() -> (Handle, Inbox) {
    let user = UserLimits {
        requests: 8,
        sessions: 4,
        queue_percent: 100,
        kv_percent: 100,
    };
    channel(Limits {
        prefill: Share::default(),
        grammar: crate::guide::Limits::USUAL,
        requests: 8,
        queue: 8,
        sessions: 4,
        user,
    })
}

fn options() -> Options {
    Options::new(9, crate::sampler::Parameters::default())
}

async fn try_send(engine: &Handle, session: SessionId) -> Result<Ticket, Refusal> {
    engine.send(session, "a b".into(), options()).await
}

async fn send(engine: &Handle, session: SessionId) -> Ticket {
    try_send(engine, session).await.expect("it is accepted")
}

fn busy(engine: &Handle, session: SessionId) -> bool {
    engine.session(session).is_some_and(|session| session.busy)
}

fn hold(engine: &Handle, held: Held, reason: &str) -> Hold {
    engine.hold(CLIENT(), held, reason.into(), Duration::from_secs(60))
}

async fn wait_for(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Keeps all encoders at work for other users until what it returns is dropped.
async fn block(engine: &Handle) -> [mpsc::Sender<()>; 2] {
    let (begin, beginnings) = mpsc::channel();
    let blocked = [98, 99].map(|user| {
        let (release, released) = mpsc::channel();
        let (engine, begin) = (engine.clone(), begin.clone());
        tokio::spawn(async move {
            let work = move |_: &crate::engine::lane::Wanted| {
                let _ = begin.send(());
                let _ = released.recv();
            };
            let client = Client { user, ..CLIENT() };
            let encoders = &engine.shared.encoders;
            encoders.run(u64::from(user) << 32, client, work).await
        });
        release
    });
    let mut begun_so_far = 0;
    while begun_so_far < 2 {
        begun_so_far += beginnings.try_iter().count();
        tokio::task::yield_now().await;
    }
    blocked
}

fn turn(inbox: &Inbox) -> Turn {
    match inbox.next() {
        Some(Command::Turn(turn)) => *turn,
        other => panic!("no turn: {other:?}"),
    }
}

fn answer(inbox: &Inbox) {
    let tokens = Some(vec![1, 2]);
    let answer = Answer {
        message: Message::new(Role::Assistant, "a b"),
        tokens,
        said: 0,
    };
    turn(inbox).finish(FinishReason::Stop, Usage::default(), Some(answer));
}

/// What waits besides turns, in order.
fn controls(engine: &Handle) -> Vec<String> {
    let waiting = engine.queue.lock();
    let controls = waiting.controls.iter();
    controls.map(|control| format!("{control:?}")).collect()
}

/// Calls that no quota counts, behind a turn that runs for long: what they leave is bounded.
#[tokio::test]
async fn sessions_leave_little_for_an_engine_that_is_busy() {
    let (engine, inbox) = engine();
    let _ = inbox.ready(Codec::Words, 4096);
    let open = || {
        engine
            .open_session(CLIENT(), Vec::new())
            .expect("there is room")
    };
    let (talks, runs) = (open(), open());
    for _ in 0..3 {
        let _ticket = send(&engine, talks).await;
        answer(&inbox);
    }
    let _ticket = send(&engine, runs).await;
    let running = turn(&inbox);

    // Each takes something back, and what is left of both is the least.
    let used = |session| engine.session(session).expect("it is open").context_used;
    engine.rewind(talks, 1).await.unwrap();
    let first = used(talks);
    engine.rewind(talks, 1).await.unwrap();
    let keep = used(talks);
    assert!(0 < keep && keep < first);
    let waits = format!("Rewind {{ session: {talks:?}, keep: {keep} }}");
    assert_eq!(controls(&engine), [waits]);
    for _ in 0..1000 {
        engine.rewind(talks, 0).await.unwrap();
        engine.clear_session(talks).await.unwrap();
    }
    let waits = format!("Rewind {{ session: {talks:?}, keep: 0 }}");
    assert_eq!(controls(&engine), [waits]);

    // Sessions that the engine has never seen, with and without a turn that waited.
    for _ in 0..1000 {
        engine.close_session(open());
        let session = open();
        let ticket = send(&engine, session).await;
        engine.cancel(ticket.id);
        engine.close_session(session);
    }
    assert_eq!(controls(&engine).len(), 1);
    engine.close_session(talks);
    engine.close_session(runs);
    let waits =
        [talks, runs].map(|session| format!("Forget {{ session: {session:?}, kept: false }}"));
    assert_eq!(controls(&engine), waits);
    running.finish(FinishReason::Cancelled, Usage::default(), None);
    assert_eq!(controls(&engine), waits, "each is forgotten once");
}

/// A call that was let in while the model loaded, and goes on when that has failed and its thread has ended, reads why.
#[tokio::test]
async fn whoever_comes_while_a_load_fails_reads_the_reason() {
    let (engine, inbox) = engine();
    let why = || Refusal::NotReady("no such file: m.gguf".into());
    let place = engine.queue.place(1).expect("it loads");
    inbox.fail("no such file: m.gguf");
    drop(inbox);
    assert_eq!(engine.queue.place(1).err(), Some(why()));
    let turn = Turn {
        id: 1,
        client: CLIENT().into(),
        session: None,
        messages: Vec::new(),
        turns: Vec::new(),
        dropped: 0,
        last: None,
        prompt: None,
        bound: None,
        guide: None,
        unchecked: Vec::new(),
        writing: None,
        options: options(),
        accepted: std::time::Instant::now(),
        deadline: None,
        events: tokio::sync::mpsc::unbounded_channel().0,
        reading: crate::engine::Reading::default(),
        registration: crate::engine::registration::Registration::new(&engine.shared),
        shared: engine.shared.clone(),
    };
    assert_eq!(engine.queue.push(turn, place).err(), Some(why()));
    engine.begin_stop();
    let asked = engine.open_session(CLIENT(), Vec::new());
    assert_eq!(asked.err(), Some(why()));
}

/// Wherever the turn is by then, nothing of it runs on.
#[tokio::test]
async fn closing_a_session_ends_its_turn() {
    let (engine, inbox) = engine();
    let ready = inbox.ready(Codec::Words, 4096);
    let open = || {
        engine
            .open_session(CLIENT(), Vec::new())
            .expect("there is room")
    };
    let (waits, runs) = (open(), open());
    let _running = send(&engine, runs).await;
    let turn = turn(&inbox);
    let mut waiting = send(&engine, waits).await;
    engine.close_session(waits);
    engine.close_session(runs);
    let ended = waiting.events.try_recv().expect("it has ended");
    let reason = FinishReason::Cancelled;
    assert!(matches!(ended, Event::Done(outcome) if outcome.reason == reason));
    assert!(turn.is_cancelled());
    let [forget] = &controls(&engine)[..] else {
        panic!("the engine has seen one of them");
    };
    assert_eq!(
        *forget,
        format!("Forget {{ session: {runs:?}, kept: false }}")
    );
    assert_eq!(engine.status().borrow().queue_length, 1);
    turn.finish(FinishReason::Cancelled, Usage::default(), None);

    // While it is being encoded: whoever sent it is told.
    let (session, [first, second]) = (open(), block(&engine).await);
    let sent = tokio::spawn({
        let engine = engine.clone();
        async move { try_send(&engine, session).await }
    });
    wait_for(|| busy(&engine, session)).await;
    engine.close_session(session);
    let refused = sent.await.unwrap().expect_err("its session is gone");
    assert_eq!(refused, Refusal::SessionClosed);
    drop((first, second, ready));
    assert_eq!(engine.status().borrow().queue_length, 0);
}

/// What waits to be encoded takes its user's share of the queue, until it is, or nobody wants it any more.
#[tokio::test]
async fn prompts_that_wait_to_be_encoded_are_bounded() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let blocked = block(&engine).await;
    let limits = Limits {
        user: UserLimits {
            queue_percent: 50,
            kv_percent: 100,
            ..engine.limits().user
        },
        ..engine.limits()
    };
    engine.set_limits(limits);
    let ask = |client: Client| {
        let engine = engine.clone();
        let messages = vec![Message::new(Role::User, "a b")];
        tokio::spawn(async move { engine.generate(client, messages, options()).await })
    };
    let places = || engine.queue.lock().places.len();
    let (stays, leaves) = (
        CLIENT(),
        Client {
            name: ":1.2".into(),
            user: 1,
        },
    );
    let mut asked = Vec::new();
    for client in [&stays, &stays, &leaves, &leaves] {
        asked.push(ask(client.clone()));
    }
    wait_for(|| places() == 4).await;
    let refused = ask(CLIENT()).await.unwrap().expect_err("it has its share");
    assert!(
        matches!(refused, Refusal::UserQueue { share: 4, .. }),
        "{refused}"
    );
    let another = Client {
        user: 2,
        ..CLIENT()
    };
    asked.push(ask(another));
    wait_for(|| places() == 5).await;

    engine.leave(&":1.2".into());
    wait_for(|| places() == 3).await;
    asked[0].abort();
    wait_for(|| places() == 2).await;
    drop(blocked);
    let mut queued = 0;
    for asked in asked {
        queued += usize::from(asked.await.is_ok_and(|asked| asked.is_ok()));
    }
    assert_eq!((queued, places()), (2, 0));
}

/// Twelve of one user do not go before the first of another.
#[tokio::test]
async fn users_take_turns() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let mut tickets = Vec::new();
    for user in [1, 1, 1, 1, 1, 1, 2] {
        let client = Client { user, ..CLIENT() };
        let messages = vec![Message::new(Role::User, "a b")];
        tickets.push(engine.generate(client, messages, options()).await.unwrap());
    }
    let first = turn(&inbox);
    let second = turn(&inbox);
    assert_eq!((first.client.user, second.client.user), (1, 2));
    engine.cancel_all();
}

/// A step may be due while somebody changes what waits; whoever asks what does, or how a session stands, waits for nobody.
#[tokio::test]
async fn who_looks_at_the_queue_holds_up_no_step() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let session = engine
        .open_session(CLIENT(), Vec::new())
        .expect("there is room");
    let ticket = send(&engine, session).await;
    let hold = hold(&engine, Held::Background, "a test");
    {
        let _changes = (engine.queue.lock(), engine.shared.sessions());
        assert!(inbox.poll(|_| May::Go).is_none(), "it would have waited");
        assert_eq!(inbox.held(), Held::Background);
        // Each of these would wait for ever.
        let holds = engine.holds();
        assert_eq!(holds[0].held, Held::Background);
        assert_eq!(holds[0].reason, "a test");
        assert_eq!(engine.waiting(), [(Priority::Normal, 1)]);
        assert_eq!(engine.queue.before(ticket.id), Some(0));
        assert!(engine.session(session).is_some_and(|session| session.busy));
    }
    drop(hold);
    assert!(inbox.held() == Held::Nothing && inbox.poll(|_| May::Go).is_some());
}

/// While a prompt is read the engine thread hears of who comes, once, and of nobody who would not be next.
#[tokio::test]
async fn a_turn_that_comes_is_heard_of_while_another_is_read() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let ask = async |user, priority| {
        let client = Client { user, ..CLIENT() };
        let options = Options {
            priority,
            ..options()
        };
        let asked = vec![Message::new(Role::User, "a b")];
        let asked = engine.generate(client, asked, options).await;
        asked.expect("it is accepted")
    };
    let asks = |user, priority| Asks {
        user,
        priority,
        had: Duration::ZERO,
        unread: 9,
    };
    let is_read = asks(1, Priority::Normal);
    let comes = |turn: &Turn| {
        let comes = asks(turn.client.user, turn.options.priority);
        preempts(comes, is_read, false, Duration::ZERO)
    };
    let heard = || inbox.has_come(comes);
    assert!(!heard());
    let mut tickets = vec![ask(1, Priority::Normal).await];
    assert!(!heard(), "it is the same user's");
    tickets.push(ask(2, Priority::Background).await);
    assert!(!heard(), "it is less urgent");
    tickets.push(ask(1, Priority::Realtime).await);
    assert!(heard() && !heard(), "it is heard of once");
    engine.cancel(tickets[2].id);
    tickets.push(ask(2, Priority::Normal).await);
    assert!(heard() && !heard());
}

/// A hold of all keeps the most urgent waiting too, whatever else is held and let go meanwhile; the end it does not hold up.
#[tokio::test]
async fn a_hold_of_all_outlasts_one_of_background_and_not_the_end() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let session = engine
        .open_session(CLIENT(), Vec::new())
        .expect("there is room");
    let options = Options {
        priority: Priority::Realtime,
        ..options()
    };
    let _ticket = engine.send(session, "hello".into(), options).await.unwrap();
    let background = hold(&engine, Held::Background, "one");
    let all = hold(&engine, Held::All, "other");
    drop(background);
    let active = engine.holds();
    assert_eq!(active.len(), 1);
    assert_eq!((active[0].held, &*active[0].reason), (Held::All, "other"));
    assert!(inbox.poll(|_| May::Go).is_none());
    drop(all);
    let all = hold(&engine, Held::All, "again");
    engine.close();
    assert_eq!(inbox.held(), Held::Nothing);
    assert!(engine.holds().is_empty());
    assert!(inbox.poll(|_| May::Go).is_some());
    drop(all);
}

/// A hold counts as one more request before those that it keeps off the device, also when they have begun.
#[tokio::test]
async fn what_a_request_waits_for_includes_the_hold_that_keeps_it_off_the_device() {
    let (engine, inbox) = engine();
    let _ready = inbox.ready(Codec::Words, 4096);
    let ask = async |priority| {
        let options = Options {
            priority,
            ..options()
        };
        let asked = vec![Message::new(Role::User, "a b")];
        let asked = engine.generate(CLIENT(), asked, options).await;
        asked.expect("it is accepted")
    };
    let background = ask(Priority::Background).await;
    let normal = ask(Priority::Normal).await;
    let waits = |ticket: &Ticket| {
        let waits = engine.waits(ticket.id);
        (waits.before, waits.seconds > 50.0 && waits.seconds <= 60.0)
    };
    assert_eq!(
        (waits(&background), waits(&normal)),
        ((1, false), (0, false))
    );
    let held = hold(&engine, Held::Background, "a test");
    assert_eq!(
        (waits(&background), waits(&normal)),
        ((2, true), (0, false))
    );
    drop(held);
    let begun = turn(&inbox);
    assert_eq!(begun.id, normal.id);
    assert_eq!(
        (waits(&background), waits(&normal)),
        ((0, false), (0, false))
    );
    let _all = hold(&engine, Held::All, "a test");
    assert_eq!((waits(&background), waits(&normal)), ((1, true), (1, true)));
    begun.finish(FinishReason::Cancelled, Usage::default(), None);
    assert_eq!(waits(&normal), (0, false), "it has ended");
    engine.cancel_all();
}
