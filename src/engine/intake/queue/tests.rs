//! The queue of an engine thread that is busy, without such a thread.

use std::sync::mpsc;

use super::*;
use crate::engine::caller::client::Client;
use crate::engine::caller::handle::{Handle, channel};
use crate::engine::caller::hold::Hold;
use crate::engine::caller::limits::UserLimits;
use crate::engine::caller::request::{Event, Options, Ticket};
use crate::engine::intake::receiver::Receiver;
use crate::engine::prompt::codec::Codec;
use crate::engine::schedule::policy::{PrefillDemand, preempts_slice};
use crate::engine::schedule::slices::Share;
use crate::engine::session::answer::Answer;
use crate::kv::FIRST_IMAGE_ROW;
use crate::model::{Message, Role};
use crate::telemetry::FinishReason;
use crate::vision::{ContentHash, Fields, Processor, Received, Settings};

const CLIENT: fn() -> Client = || Client {
    name: ":1.1".into(),
    user: 1,
};

fn engine() -> (Handle, Receiver) {
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

/// Keeps all encoders busy for other users until the result is dropped.
async fn block(engine: &Handle) -> [mpsc::Sender<()>; 2] {
    let (begin, beginnings) = mpsc::channel();
    let blocked = [98, 99].map(|user| {
        let (release, released) = mpsc::channel();
        let (engine, begin) = (engine.clone(), begin.clone());
        tokio::spawn(async move {
            let work = move |_: &crate::engine::prompt::workers::Interest| {
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

fn next_request(receiver: &Receiver) -> Request {
    match receiver.next() {
        Some(Command::Request(request)) => *request,
        other => panic!("no turn: {other:?}"),
    }
}

fn answer(receiver: &Receiver) {
    let tokens = Some(vec![1, 2]);
    let answer = Answer {
        message: Message::new(Role::Assistant, "a b"),
        tokens,
        said: 0,
    };
    next_request(receiver).finish(FinishReason::Stop, Usage::default(), Some(answer));
}

/// Returns the waiting commands that are not requests, in order.
fn controls(engine: &Handle) -> Vec<String> {
    let waiting = engine.queue.lock();
    let controls = waiting.controls.iter();
    controls.map(|control| format!("{control:?}")).collect()
}

/// Calls that no quota counts leave few commands behind a long request.
#[tokio::test]
async fn sessions_leave_few_commands_for_a_busy_engine() {
    let (engine, receiver) = engine();
    let _ = receiver.ready(Codec::Words, 4096);
    let open = || {
        engine
            .open_session(CLIENT(), Vec::new())
            .expect("there is room")
    };
    let (talks, runs) = (open(), open());
    for _ in 0..3 {
        let _ticket = send(&engine, talks).await;
        answer(&receiver);
    }
    let _ticket = send(&engine, runs).await;
    let running = next_request(&receiver);

    // Of two rewinds the smaller number counts.
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

    // Sessions that the engine does not know, with and without a waiting request.
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
    let waits = [talks, runs]
        .map(|session| format!("Forget {{ session: {session:?}, persistent: false }}"));
    assert_eq!(controls(&engine), waits);
    running.finish(FinishReason::Cancelled, Usage::default(), None);
    assert_eq!(controls(&engine), waits, "each is forgotten once");
}

/// A call that was accepted during the load, and continues after the load has failed, gets the reason.
#[tokio::test]
async fn a_request_during_a_failing_load_gets_the_reason() {
    let (engine, receiver) = engine();
    let why = || Refusal::NotReady("no such file: m.gguf".into());
    let place = engine.queue.place(1).expect("it loads");
    receiver.fail("no such file: m.gguf");
    drop(receiver);
    assert_eq!(engine.queue.place(1).err(), Some(why()));
    let request = Request {
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
        cached: None,
        writing: None,
        options: options(),
        stop: None,
        accepted: std::time::Instant::now(),
        deadline: None,
        events: tokio::sync::mpsc::unbounded_channel().0,
        reading: crate::engine::Reading::default(),
        registration: crate::engine::intake::registration::Registration::new(&engine.shared),
        shared: engine.shared.clone(),
    };
    assert_eq!(engine.queue.push(request, place).err(), Some(why()));
    engine.begin_stop();
    let asked = engine.open_session(CLIENT(), Vec::new());
    assert_eq!(asked.err(), Some(why()));
}

/// At whatever stage the request is, it ends.
#[tokio::test]
async fn closing_a_session_ends_its_request() {
    let (engine, receiver) = engine();
    let ready = receiver.ready(Codec::Words, 4096);
    let open = || {
        engine
            .open_session(CLIENT(), Vec::new())
            .expect("there is room")
    };
    let (waits, runs) = (open(), open());
    let _running = send(&engine, runs).await;
    let request = next_request(&receiver);
    let mut waiting = send(&engine, waits).await;
    engine.close_session(waits);
    engine.close_session(runs);
    let ended = waiting.events.try_recv().expect("it has ended");
    let reason = FinishReason::Cancelled;
    assert!(matches!(ended, Event::Done(outcome) if outcome.reason == reason));
    assert!(request.is_cancelled());
    let [forget] = &controls(&engine)[..] else {
        panic!("the engine has seen one of them");
    };
    assert_eq!(
        *forget,
        format!("Forget {{ session: {runs:?}, persistent: false }}")
    );
    assert_eq!(engine.status().borrow().queue_length, 1);
    request.finish(FinishReason::Cancelled, Usage::default(), None);

    // While the prompt is encoded, the caller gets the refusal.
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

/// A prompt that waits to be encoded counts in its user's share of the queue until it is encoded or cancelled.
#[tokio::test]
async fn prompts_that_wait_to_be_encoded_are_bounded() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
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

/// The first request of a user does not wait for twelve of another.
#[tokio::test]
async fn users_alternate() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
    let mut tickets = Vec::new();
    for user in [1, 1, 1, 1, 1, 1, 2] {
        let client = Client { user, ..CLIENT() };
        let messages = vec![Message::new(Role::User, "a b")];
        tickets.push(engine.generate(client, messages, options()).await.unwrap());
    }
    let first = next_request(&receiver);
    let second = next_request(&receiver);
    assert_eq!((first.client.user, second.client.user), (1, 2));
    engine.cancel_all();
}

/// The engine thread does not wait for the queue's lock, and readers of the queue or of a session take none.
#[tokio::test]
async fn readers_of_the_queue_delay_no_step() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
    let session = engine
        .open_session(CLIENT(), Vec::new())
        .expect("there is room");
    let ticket = send(&engine, session).await;
    let hold = hold(&engine, Held::Background, "a test");
    {
        let _changes = (engine.queue.lock(), engine.shared.sessions());
        assert!(
            receiver.queue.poll(|_| Readiness::Ready).is_none(),
            "it would have waited"
        );
        assert_eq!(receiver.queue.held(), Held::Background);
        // Each of these must not wait for the lock.
        let holds = engine.holds();
        assert_eq!(holds[0].held, Held::Background);
        assert_eq!(holds[0].reason, "a test");
        assert_eq!(engine.waiting(), [(Priority::Normal, 1)]);
        assert_eq!(engine.queue.before(ticket.id), Some(0));
        assert!(engine.session(session).is_some_and(|session| session.busy));
    }
    drop(hold);
    assert!(
        receiver.queue.held() == Held::Nothing
            && receiver.queue.poll(|_| Readiness::Ready).is_some()
    );
}

/// During a prefill the engine thread notices each arrival once, if it would be next.
#[tokio::test]
async fn an_arrival_is_noticed_once_during_a_prefill() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
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
    let asks = |user, priority| PrefillDemand {
        user,
        priority,
        prefill_time: Duration::ZERO,
        remaining: 9,
    };
    let is_read = asks(1, Priority::Normal);
    let comes = |request: &Request| {
        let comes = asks(request.client.user, request.options.priority);
        preempts_slice(comes, is_read, false, Duration::ZERO)
    };
    let notices = || {
        let unseen = receiver.queue.has_unseen_arrival(comes);
        assert_eq!(receiver.queue.has_unseen_arrival(comes), unseen);
        let notices = receiver.queue.has_arrival(comes);
        assert_eq!(notices, unseen);
        notices
    };
    assert!(!notices());
    let mut tickets = vec![ask(1, Priority::Normal).await];
    assert!(!notices(), "it is the same user's");
    tickets.push(ask(2, Priority::Background).await);
    assert!(!notices(), "it is less urgent");
    tickets.push(ask(1, Priority::Realtime).await);
    assert!(notices() && !notices(), "it is noticed once");
    engine.cancel(tickets[2].id);
    tickets.push(ask(2, Priority::Normal).await);
    assert!(notices() && !notices());
}

/// A hold of all suspends the most urgent requests too, whatever other holds begin and end, but does not delay the end.
#[tokio::test]
async fn a_hold_of_all_outlasts_one_of_background_and_not_the_end() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
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
    assert!(receiver.queue.poll(|_| Readiness::Ready).is_none());
    drop(all);
    let all = hold(&engine, Held::All, "again");
    engine.close();
    assert_eq!(receiver.queue.held(), Held::Nothing);
    assert!(engine.holds().is_empty());
    assert!(receiver.queue.poll(|_| Readiness::Ready).is_some());
    drop(all);
}

/// A hold counts as one more request before those that it suspends, also if they have begun.
#[tokio::test]
async fn the_wait_estimate_includes_holds() {
    let (engine, receiver) = engine();
    let _ready = receiver.ready(Codec::Words, 4096);
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
        let waits = engine.wait_estimate(ticket.id);
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
    let begun = next_request(&receiver);
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

/// A request that is lent comes back and shows its images, so that their embeddings stay needed.
#[tokio::test]
async fn images_of_lent_requests_are_needed() {
    let (engine, _receiver) = engine();
    let processor = Processor::new(Settings::gemma3()).expect("published settings");
    let plan = processor.plan(8, 8, None).expect("any image has a plan");
    let received = Received::new(Box::new([]), Fields::default(), ());
    let hash = ContentHash([7; 32]);
    let key = PictureKey { user: 1, hash };
    let rows = FIRST_IMAGE_ROW..FIRST_IMAGE_ROW + 256;
    let picture = Arc::new(Picture::new(key, Arc::new(received), plan, rows));
    let loan = engine.queue.lend(std::slice::from_ref(&picture));
    let other = engine.queue.lend(&[]);
    assert_eq!(engine.queue.pictures(), HashSet::from([key]));
    engine.queue.end_loan(other);
    assert_eq!(engine.queue.pictures(), HashSet::from([key]));
    engine.queue.end_loan(loan);
    assert!(engine.queue.pictures().is_empty());
}
