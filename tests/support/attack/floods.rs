//! As many calls, connections and sessions as the bus accepts.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::wire::{Message, Value, Wire};
use super::{PAUSE, Until, calls, on};

const ANSWER: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 500;

fn flood(bus: &Path, until: &Until, call: impl Fn() -> Message + Sync) {
    on(2, bus, until, |wire| {
        let mut call = call().no_reply();
        call.serial = 1;
        let calls = call.bytes().repeat(AT_ONCE);
        while !until.is_over() {
            wire.write(&calls, || until.is_over())?;
        }
        Ok(())
    });
}

pub(super) fn no_reply(bus: &Path, until: &Until) {
    flood(bus, until, calls::introspect);
}

pub(super) fn no_reply_generate(bus: &Path, until: &Until) {
    flood(bus, until, || {
        calls::generate("hello", [("max_tokens", Value::U32(1))])
    });
}

/// Connections that send a call and leave.
pub(super) fn connections(bus: &Path, until: &Until) {
    on(2, bus, until, |wire| {
        let mut more: Vec<Wire> = Vec::new();
        while !until.is_over() && more.len() < 50 {
            let mut one = Wire::connect(bus)?;
            one.send(calls::get("State"))?;
            more.push(one);
        }
        wire.ask(calls::ping(), ANSWER).map(drop)
    });
}

pub(super) fn sessions(bus: &Path, until: &Until) {
    on(2, bus, until, |wire| {
        let opened = wire.ask(
            calls::open_session([("system", "You are a robot.".into())]),
            ANSWER,
        )?;
        if opened.error.is_empty() {
            let path = opened.text().unwrap_or_default();
            wire.ask(calls::session(&path, "Close"), ANSWER)?;
        } else {
            thread::sleep(PAUSE);
        }
        Ok(())
    });
}
