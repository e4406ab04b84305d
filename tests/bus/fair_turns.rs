//! Fair turns between users, at the daemon's end of the bus and in the engine's queue. A user with many connections delays
//! another user's call by one call only.

use std::thread;
use std::time::Duration;

use zbus::fdo::StatsProxy;

use crate::support::attack::{calls, stop_reading};
use crate::support::daemon::{EVENTUALLY, until};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::unchecked_bus::{UncheckedBus, UncheckedClient};
use crate::support::wire::{BUS, BUS_PATH, Message, Wire};

/// Bytes of a text that the bus needs many turns to forward.
const LONG: usize = 64 << 10;
const GREEDY: u32 = 1001;
const OTHER: u32 = 1002;
const CONNECTIONS: usize = 10;

/// Starts a daemon that has answered each connection of a greedy user, and one of another user, once.
fn start(script: &str) -> (UncheckedBus, Process, Vec<UncheckedClient>, UncheckedClient) {
    let bus = UncheckedBus::start();
    let daemon = Process::on(bus.text(), &[&format!("--sim={script}")], "");
    bus.wait_for_daemon();
    let mut greedy: Vec<_> = (0..CONNECTIONS).map(|_| bus.client(GREEDY)).collect();
    let mut other = bus.client(OTHER);
    for client in greedy.iter_mut().chain([&mut other]) {
        let ping = client.send(calls::ping()).expect("it is connected");
        client.reply(ping, EVENTUALLY).expect("an answer");
    }
    daemon.settle();
    (bus, daemon, greedy, other)
}

/// Counts the answers to other clients, after the first `before`, until the first answer to `name`.
fn answers_before(bus: &UncheckedBus, before: usize, name: &str) -> Option<usize> {
    bus.answered()[before..].iter().position(|to| to == name)
}

#[test]
fn an_answer_does_not_wait_for_all_of_another_user() {
    const EACH: usize = 100;
    let (bus, daemon, mut greedy, mut other) = start("");
    let before = bus.answered().len();
    // The daemon can send only the few dozen answers that fit into the kernel's buffer.
    bus.pause_reading(true);
    for client in &mut greedy {
        for _ in 0..EACH {
            client.send(calls::ping()).expect("it is connected");
        }
    }
    daemon.settle();
    let ping = other.send(calls::ping()).expect("it is connected");
    daemon.settle();
    bus.pause_reading(false);
    other.reply(ping, EVENTUALLY).expect("an answer");
    let waited = answers_before(&bus, before, &other.name).expect("it is answered");
    assert!(waited < CONNECTIONS * EACH / 5, "{waited}");
    for client in &mut greedy {
        let last = client.send(calls::ping()).expect("it is connected");
        client.reply(last, EVENTUALLY).expect("nothing is lost");
    }
    let answers = bus.answered().len() - before;
    assert_eq!(answers, CONNECTIONS * (EACH + 1) + 1);
}

#[test]
fn a_request_does_not_wait_for_all_of_another_user() {
    let (bus, _daemon, mut greedy, mut other) = start("tokens=10,delay=20ms");
    let start = bus.answered().len();
    for client in &mut greedy {
        client
            .send(calls::complete("hello", []))
            .expect("it is connected");
    }
    wait_for_requests(&bus, start, &mut other);
    let before = bus.answered().len();
    let asked = other
        .send(calls::complete("hello", []))
        .expect("it is connected");
    other.reply(asked, EVENTUALLY).expect("an answer");
    let waited = answers_before(&bus, before, &other.name).expect("it is answered");
    assert!(waited <= 3, "{waited} of {CONNECTIONS}");
}

/// Waits until each greedy connection's request is in the queue or answered.
fn wait_for_requests(bus: &UncheckedBus, start: usize, other: &mut UncheckedClient) {
    loop {
        let asked = other.send(calls::get_all()).expect("it is connected");
        let properties = other.reply(asked, EVENTUALLY).expect("an answer");
        let queued = properties.number("QueueLength").expect("a number");
        let answered = bus.answered()[start..]
            .iter()
            .filter(|to| **to != other.name)
            .count();
        if queued as usize + answered >= CONNECTIONS {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// While the daemon sends a long answer, all other calls wait. It therefore refuses a long answer to a client that does not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_gets_no_long_answer() {
    let bus = PrivateBus::start();
    let _daemon = Process::start(&bus, "", "").await;
    let mut wire = Wire::connect(&bus.socket()).expect("a connection");
    let text = "x".repeat(LONG);
    let open = calls::open_session([("system", text.as_str().into())]);
    let opened = wire.ask(open, EVENTUALLY).expect("an answer");
    let path = opened.text().expect("a session");
    let history = || calls::session(&path, "History");
    let messages = || calls::session(&path, "Messages");
    let read = wire.ask(history(), EVENTUALLY).expect("an answer");
    assert_eq!(read.error, "");

    // The bus handles calls in their order: with the match rule in place, it has queued all its answers before.
    stop_reading(&mut wire).expect("the bus takes it");
    let rule = Message::call(BUS, BUS_PATH, BUS, "AddMatch").with("member='None'");
    wire.send(rule).expect("the bus takes it");
    let watcher = bus.connect().await;
    let statistics = StatsProxy::new(&watcher).await.expect("a proxy");
    let name = wire.name.clone();
    let queued = async || {
        let statistics = statistics.get_connection_stats(name.as_str().try_into().unwrap());
        let statistics = statistics.await.expect("the bus has statistics");
        let rules = statistics.match_rules().unwrap_or_default();
        (rules, statistics.outgoing_messages().unwrap_or_default())
    };
    until(async || queued().await.0 == 1).await;
    let (_, before) = queued().await;
    let unread = [history(), messages()].map(|call| wire.send(call).expect("the bus takes it"));
    let both = before + u32::try_from(unread.len()).unwrap();
    until(async || queued().await.1 >= both).await;

    let mut refused = 0;
    while refused < unread.len() {
        let answer = wire.next(EVENTUALLY).expect("a message");
        let answer = answer.expect("an answer to each");
        if unread.contains(&answer.reply_to) {
            assert!(answer.error.ends_with(".QuotaExceeded"), "{answer:?}");
            refused += 1;
        }
    }
    let read = wire.ask(history(), EVENTUALLY).expect("an answer");
    assert_eq!(read.error, "");
}
