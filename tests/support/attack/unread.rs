//! Answers that are never read: the bus holds them, and at some point takes no more from whoever answers.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::wire::{Message, Value, Wire};
use super::{PAUSE, Until, calls, on};

/// More than a socket and its bus keep for a client: from then on what it gets stays with the bus.
const FILL: usize = 200;
/// The bus lets a connection wait for 128 answers; what it refuses does not reach the daemon.
const AT_ONCE: usize = 120;
/// How long one connection keeps all its answers unread.
const HOLD: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(20);

/// From now on the bus can give this connection nothing more: its socket is full.
pub(crate) fn stop_reading(wire: &mut Wire) -> io::Result<()> {
    wire.send_all((0..FILL).map(|_| calls::introspect_bus()))
        .map(drop)
}

/// Calls that are as many as may be unanswered, and so again until the time is over.
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

/// The bus lets go of what was held for a connection that leaves; the next one is there already.
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

/// The longest texts that a conversation takes, read back again and again.
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
