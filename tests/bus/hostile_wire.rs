//! Clients that write malformed messages, and clients that do not read. Other clients are answered, and the daemon's
//! memory stays bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use zbus::Variant;

use super::{ask, fields};
use crate::support::attack::{ATTACKS, Attack, MALFORMED, Until, calls, fuzz, malformed};
use crate::support::daemon::{Client, EVENTUALLY, eventually, until};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;
use crate::support::unchecked_bus::{UncheckedBus, UncheckedClient};
use crate::support::wire::Wire;

/// The memory that an attack may cost, during it and afterwards.
const DURING: u64 = 128 << 20;
const AFTER: u64 = 16 << 20;
/// The honest client's requests during an attack. Each attack reaches its full effect within them.
const ROUNDS: usize = 60;
const ROUND: Duration = Duration::from_millis(50);
/// An attacker and an honest user, where the bus does not assign them.
const USERS: [u32; 2] = [1001, 1002];

/// A background attack, until it is dropped.
struct Attacking {
    until: Until,
    thread: Option<JoinHandle<()>>,
}

impl Attacking {
    fn begin(name: &'static str, bus: &PrivateBus) -> Self {
        let (until, socket) = (Until::after(10 * EVENTUALLY), bus.socket());
        let attack = Attack::named(name).expect("the attack is in the table");
        let stopped = until.clone();
        let thread = std::thread::spawn(move || attack.run(&socket, &stopped));
        Self {
            until,
            thread: Some(thread),
        }
    }
}

impl Drop for Attacking {
    fn drop(&mut self) {
        self.until.enough();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks that the daemon answers a property and a request.
async fn is_answered(client: &Client) {
    eventually(client.manager.state()).await.expect("a state");
    // All clients are one user here, so the attack may use up the user's limits.
    until(async || match ask(client, "one two", fields([])).await {
        Ok((_, stream)) => {
            assert_eq!(Reader::new(stream).rest().await, "sim: one two");
            true
        }
        Err(ganglion::bus::Error::QuotaExceeded(_) | ganglion::bus::Error::Busy(_)) => false,
        Err(other) => panic!("{other:?}"),
    })
    .await;
}

/// Checks that an honest client is answered during the attack, that memory stays bounded, and that it returns to
/// normal.
async fn withstands(name: &'static str) {
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "context=100000", "").await;
    let client = Client::connect(&bus).await;
    is_answered(&client).await;
    let (resident, peak) = (daemon.resident().unwrap(), daemon.peak().unwrap());
    let attacking = Attacking::begin(name, &bus);
    for _ in 0..ROUNDS {
        eventually(client.manager.state()).await.expect("a state");
        tokio::time::sleep(ROUND).await;
    }
    is_answered(&client).await;
    let grown = daemon.peak().unwrap() - peak;
    drop(attacking);
    assert!(grown < DURING, "{} MiB meanwhile", grown >> 20);
    is_answered(&client).await;
    assert!(daemon.lives());
    until(async || daemon.resident().unwrap() < resident + AFTER).await;
}

macro_rules! withstands {
    ($($test:ident: $attack:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            withstands($attack).await;
        }
    )*};
}

withstands! {
    unread_replies_with_descriptors_stop_no_client: "unread-descriptors";
    unread_replies_of_several_connections_stop_no_client: "unread-descriptors-many";
    unread_replies_of_a_reconnecting_client_stop_no_client: "unread-descriptors-again";
    unread_signals_stop_no_client: "unread-signals";
    oversized_calls_while_replies_are_unread_cost_little: "oversized";
    unread_histories_stop_no_client: "unread-history";
    refused_prompts_stop_no_client_and_leave_nothing: "refused-prompts";
    unread_introspection_stops_no_client: "unread-introspect";
    unread_pings_stop_no_client: "unread-ping";
    unread_properties_stop_no_client: "unread-properties";
    calls_that_want_no_reply_stop_no_client: "no-reply";
    requests_that_want_no_reply_stop_no_client: "no-reply-generate";
    short_connections_stop_no_client: "connections";
    short_sessions_stop_no_client: "sessions";
    turns_closed_in_the_same_write_stop_no_client: "send-close";
}

#[test]
fn attacks_have_names_of_their_own() {
    let mut names: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ATTACKS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_are_dropped() {
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "", "").await;
    let client = Client::connect(&bus).await;
    for number in 0..MALFORMED {
        let mut wire = Wire::connect(&bus.socket()).expect("the bus takes a connection");
        // The bus may close the connection.
        let _ = wire.send(malformed(number));
        is_answered(&client).await;
        assert!(daemon.lives(), "message {number}");
    }
}

/// Whether the honest client's ping is answered.
fn pings(honest: &mut UncheckedClient) -> bool {
    let sent = honest.send(calls::ping());
    sent.is_ok_and(|serial| {
        let reply = honest.reply(serial, EVENTUALLY);
        reply.is_some_and(|reply| reply.error.is_empty())
    })
}

/// The bus of Debian 11 forwards unknown header fields.
#[test]
fn malformed_messages_that_an_older_bus_passes_on_are_dropped() {
    let bus = UncheckedBus::start();
    let mut daemon = Process::on(bus.text(), &["--sim="], "");
    let [mut hostile, mut honest] = USERS.map(|user| bus.client(user));
    bus.wait_for_daemon();
    assert!(pings(&mut honest), "it answers before");
    for number in 0..MALFORMED {
        hostile.send(malformed(number)).expect("it is connected");
        assert!(pings(&mut honest), "message {number}");
        assert!(daemon.lives(), "message {number}");
    }
    let complete = honest
        .send(calls::complete("hello", []))
        .expect("it is connected");
    let answer = honest.reply(complete, EVENTUALLY).expect("an answer");
    assert_eq!(answer.text().as_deref(), Some("sim: hello"));
}

/// A fixed seed. To keep a frame that another seed has found, add that seed.
#[tokio::test(flavor = "multi_thread")]
async fn random_frames_stop_no_client() {
    const FRAMES: u64 = 4000;
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "", "").await;
    let client = Client::connect(&bus).await;
    for seed in 1..3 {
        let (socket, until) = (bus.socket(), Until::after(EVENTUALLY));
        let fuzzed = move || fuzz::run(&socket, seed, &until, FRAMES);
        tokio::task::spawn_blocking(fuzzed).await.unwrap();
        is_answered(&client).await;
        assert!(daemon.lives(), "seed {seed}");
    }
}

/// Without a bus that refuses most frames. Frames with a valid length stay whole.
#[test]
fn random_frames_without_a_checking_bus_stop_no_client() {
    const FRAMES: usize = 4000;
    let bus = UncheckedBus::start();
    let mut daemon = Process::on(bus.text(), &["--sim="], "");
    let [mut hostile, mut honest] = USERS.map(|user| bus.client(user));
    bus.wait_for_daemon();
    let mut rng = fastrand::Rng::with_seed(1);
    for number in 0..FRAMES {
        let message = fuzz::message(&mut rng);
        let description = format!("frame {number}: {message:?}");
        hostile.send(message).expect(&description);
        if number % 16 == 0 {
            assert!(pings(&mut honest), "at or before {description}");
        }
    }
    assert!(pings(&mut honest) && daemon.lives());
}

/// One connection has twelve long answers waiting; another connection's short one is next.
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_does_not_delay_all_others() {
    const LONG: usize = 12;
    let bus = PrivateBus::start();
    let _daemon = Process::start(&bus, "tokens=40,delay=10ms", "").await;
    let (greedy, other) = (Client::connect(&bus).await, Client::connect(&bus).await);
    let done = std::sync::Arc::new(AtomicUsize::new(0));
    let mut answers = Vec::new();
    for number in 0..LONG {
        let options = fields([("max_tokens", Variant::from(40_u32))]);
        let (_, stream) = ask(&greedy, "a long story", options).await.unwrap();
        let mut reader = Reader::new(stream);
        if number == 0 {
            reader.next().await.expect("it runs");
        }
        let done = done.clone();
        answers.push(tokio::spawn(async move {
            reader.rest().await;
            done.fetch_add(1, Ordering::Relaxed);
        }));
    }
    let short = fields([("max_tokens", Variant::from(1_u32))]);
    let (_, stream) = ask(&other, "a word", short).await.unwrap();
    Reader::new(stream).rest().await;
    let before = done.load(Ordering::Relaxed);
    assert!(before <= 2, "{before} of {LONG} came first");
    for answer in answers {
        answer.await.unwrap();
    }
}

/// The end of a conversation cancels all its requests, even if both arrive together.
#[tokio::test(flavor = "multi_thread")]
async fn turns_closed_in_the_same_write_are_cancelled() {
    let bus = PrivateBus::start();
    let _daemon = Process::start(&bus, "tokens=100000,delay=10ms,context=200000", "").await;
    let client = Client::connect(&bus).await;
    let socket = bus.socket();
    let closed = tokio::task::spawn_blocking(move || {
        let mut wire = Wire::connect(&socket)?;
        let mut kept = Vec::new();
        for _ in 0..9 {
            let opened = wire.ask(calls::open_session([]), EVENTUALLY)?;
            let path = opened.text().expect("the path of a session");
            let turn = calls::send(&path, "a story", [("max_tokens", 4000.into())]);
            let last = wire.send_all([turn, calls::session(&path, "Close")])?;
            // No client cancels by closing a stream.
            while let Some(received) = wire.next(EVENTUALLY)? {
                let ends = received.reply_to == last;
                kept.push(received);
                if ends {
                    break;
                }
            }
        }
        std::io::Result::Ok((wire, kept))
    });
    let _open = closed.await.unwrap().expect("the bus lives");
    until(async || client.manager.queue_length().await.unwrap() == 0).await;
}
