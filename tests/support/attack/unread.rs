//! Unread answers: the bus queues them, and at some point accepts no more from their sender.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::wire::{Message, Value, Wire};
use super::{PAUSE, Until, calls, on};

/// More answers than the socket and its buffers hold. The bus queues all later ones.
const FILL: usize = 200;
/// The bus allows a connection 128 pending replies. Calls above that do not reach the daemon.
const AT_ONCE: usize = 120;
/// How long one connection leaves all its answers unread.
const HOLD: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(20);

/// Fills this connection's socket, so that the bus can deliver nothing more to it.
pub(crate) fn stop_reading(wire: &mut Wire) -> io::Result<()> {
    wire.send_all((0..FILL).map(|_| calls::introspect_bus()))
        .map(drop)
}

/// Sends as many calls as may be pending, repeatedly until the time is over.
fn unread(wire: &mut Wire, until: &Until, call: impl Fn() -> Message) -> io::Result<()> {
    stop_reading(wire)?;
    while !until.is_over() {
        let calls: Vec<u8> = (0..AT_ONCE)
            .flat_map(|_| wire.numbered(call()).bytes())
            .collect();
        wire.write(&calls, || until.is_over())?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// A word whose answer fits into its pipe.
fn short() -> Message {
    calls::generate("hello", [("max_tokens", Value::U32(1))])
}

pub(super) fn descriptors(bus: &Path, until: &Until) {
    on(1, bus, until, |wire| unread(wire, until, short));
}

pub(super) fn descriptors_many(bus: &Path, until: &Until) {
    on(8, bus, until, |wire| unread(wire, until, short));
}

/// The bus frees the queue of a connection that leaves; the next one is connected already.
pub(super) fn descriptors_again(bus: &Path, until: &Until) {
    on(2, bus, until, |wire| {
        unread(wire, &until.within(HOLD), short)
    });
}

pub(super) fn signals(bus: &Path, until: &Until) {
    on(4, bus, until, |wire| {
        unread(wire, until, || {
            calls::generate(
                "hello",
                [
                    ("stream", "signals".into()),
                    ("max_tokens", Value::U32(200)),
                ],
            )
        })
    });
}

pub(super) fn introspect(bus: &Path, until: &Until) {
    on(6, bus, until, |wire| unread(wire, until, calls::introspect));
}

pub(super) fn ping(bus: &Path, until: &Until) {
    on(4, bus, until, |wire| unread(wire, until, calls::ping));
}

pub(super) fn properties(bus: &Path, until: &Until) {
    on(4, bus, until, |wire| unread(wire, until, calls::get_all));
}

/// Reads the longest texts that a conversation accepts repeatedly.
pub(super) fn history(bus: &Path, until: &Until) {
    let texts: Vec<String> = [20, 16, 12].map(|bits| "x ".repeat(1 << (bits - 1))).into();
    on(4, bus, until, |wire| {
        for text in &texts {
            let opened = wire.ask(
                calls::open_session([("system", text.as_str().into())]),
                ANSWER,
            )?;
            if !opened.error.is_empty() {
                continue;
            }
            let path = opened.text().unwrap_or_default();
            return unread(wire, until, || calls::session(&path, "History"));
        }
        thread::sleep(PAUSE);
        Ok(())
    });
}
