//! Calls of the bus's maximum length from clients that do not read the answers.

use std::io;
use std::path::Path;
use std::thread;

use super::super::wire::{Message, Value};
use super::{Until, calls, on, stop_reading};

/// The bus accepts messages of 32 MiB at most.
const BYTES: usize = 30 << 20;
/// More than the bus lets one sender have undelivered.
const DESCRIPTORS: usize = 100;

pub(super) fn run(bus: &Path, until: &Until) {
    thread::scope(|scope| {
        scope.spawn(|| {
            on(1, bus, until, |wire| {
                stop_reading(wire)?;
                while !until.is_over() {
                    let short = || calls::generate("hello", [("max_tokens", Value::U32(1))]);
                    wire.send_all((0..DESCRIPTORS).map(|_| short()))?;
                    thread::sleep(super::PAUSE);
                }
                Ok(())
            });
        });
        scope.spawn(|| calls(bus, until));
    });
}

/// Four connections that send only these calls.
fn calls(bus: &Path, until: &Until) {
    let bytes = long().bytes();
    on(4, bus, until, |wire| -> io::Result<()> {
        while !until.is_over() {
            wire.write(&bytes, || until.is_over())?;
        }
        Ok(())
    });
}

/// The call expects no reply, because the bus would count that.
fn long() -> Message {
    let mut call = calls::complete(&"x".repeat(BYTES), []).no_reply();
    call.serial = 1;
    call
}
