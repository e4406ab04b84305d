//! Users take turns, at the daemon's end of the bus and in the engine's queue: however many connections one has, another
//! waits for one of its calls.

use std::thread;
use std::time::Duration;

use crate::support::attack::{Until, calls, stop_reading};
use crate::support::daemon::EVENTUALLY;
use crate::support::peer_bus::{PeerBus, PeerClient};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::wire::Wire;

/// Bytes of a text that takes the bus as many turns as it has kilobytes.
const LONG: usize = 64 << 10;
const GREEDY: u32 = 1001;
const OTHER: u32 = 1002;
const CONNECTIONS: usize = 10;

/// Connections of one user, one of another, and the daemon that has answered each once.
fn start(script: &str) -> (PeerBus, Process, Vec<PeerClient>, PeerClient) {
    let bus = PeerBus::start();
    let daemon = Process::on(bus.text(), &[&format!("--sim={script}")], "");
    let mut greedy: Vec<_> = (0..CONNECTIONS).map(|_| bus.client(GREEDY)).collect();
    let mut other = bus.client(OTHER);
    let until = Until::after(EVENTUALLY);
    while other.send(calls::ping()).is_err() && !until.is_over() {
        thread::sleep(Duration::from_millis(50));
    }
    for client in greedy.iter_mut().chain([&mut other]) {
        let ping = client.send(calls::ping()).expect("it is connected");
        client.reply(ping, EVENTUALLY).expect("an answer");
    }
    daemon.settle();
    (bus, daemon, greedy, other)
}

/// How many answers of others came before the first to `name`, of those after the first `before`.
fn wait(bus: &PeerBus, before: usize, name: &str) -> Option<usize> {
    bus.answered()[before..].iter().position(|to| to == name)
}

#[test]
fn an_answer_does_not_wait_for_all_of_another_user() {
    const EACH: usize = 100;
    let (bus, daemon, mut greedy, mut other) = start("");
    let before = bus.answered().len();
    // Nothing but some dozens of answers that the kernel keeps leaves the daemon.
    bus.deafen(true);
    for client in &mut greedy {
        for _ in 0..EACH {
            client.send(calls::ping()).expect("it is connected");
        }
    }
    daemon.settle();
    let ping = other.send(calls::ping()).expect("it is connected");
    daemon.settle();
    bus.deafen(false);
    other.reply(ping, EVENTUALLY).expect("an answer");
    let waited = wait(&bus, before, &other.name).expect("it is answered");
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
    for client in &mut greedy {
        client
            .send(calls::complete("hello", []))
            .expect("it is connected");
    }
    thread::sleep(Duration::from_millis(250));
    let before = bus.answered().len();
    let asked = other
        .send(calls::complete("hello", []))
        .expect("it is connected");
    other.reply(asked, EVENTUALLY).expect("an answer");
    let waited = wait(&bus, before, &other.name).expect("it is answered");
    assert!(waited <= 3, "{waited} of {CONNECTIONS}");
}

/// While a long answer is on its way to the bus, all others wait: it is for those alone who read.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_not_for_one_who_does_not_read() {
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
    stop_reading(&mut wire).expect("the bus takes it");
    let unread = [history(), messages()].map(|call| wire.send(call).expect("the bus takes it"));
    // Longer than it waits for what came before to be read.
    thread::sleep(Duration::from_secs(7));
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
