//! Many waiting, running or cancelled requests of one user. Each request by itself is ordinary.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::wire::{Value, Wire};
use super::{PAUSE, Until, calls, on};

const ANSWER: Duration = Duration::from_secs(20);
const WAITING: usize = 12;

/// Keeps that many long answers waiting or running; all are read.
pub(super) fn long_answers(bus: &Path, until: &Until) {
    on(WAITING, bus, until, |wire| {
        let long = "Tell a very long story about a robot.";
        let asked = wire.ask(
            calls::generate(long, [("max_tokens", Value::U32(1000))]),
            ANSWER,
        )?;
        let Some(mut stream) = asked.descriptors.into_iter().next() else {
            thread::sleep(PAUSE);
            return Ok(());
        };
        // The thread ends with its request, which must not outlast the attack.
        thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        drain(wire, until, &asked.path)
    });
}

/// Reads signals until the request has finished.
fn drain(wire: &mut Wire, until: &Until, _request: &str) -> io::Result<()> {
    while !until.is_over() {
        if let Some(signal) = wire.next(PAUSE)?
            && signal.member == "Finished"
        {
            break;
        }
    }
    Ok(())
}

/// Each request would be an entry of the journal.
pub(super) fn cancelled(bus: &Path, until: &Until) {
    on(2, bus, until, |wire| {
        while !until.is_over() {
            let asked = wire.ask(calls::generate("hello", []), ANSWER)?;
            if let Some(request) = asked.text().filter(|_| asked.error.is_empty()) {
                drop(asked);
                wire.ask(calls::cancel(&request), ANSWER)?;
            } else {
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    });
}

/// A turn and the end of its conversation, in one write.
pub(super) fn send_and_close(bus: &Path, until: &Until) {
    on(2, bus, until, |wire| {
        while !until.is_over() {
            let opened = wire.ask(calls::open_session([]), ANSWER)?;
            let Some(path) = opened.text().filter(|_| opened.error.is_empty()) else {
                thread::sleep(PAUSE);
                continue;
            };
            let turn = calls::send(
                &path,
                "Tell a long story.",
                [("max_tokens", Value::U32(1000))],
            );
            let last = wire.send_all([turn, calls::session(&path, "Close")])?;
            wire.reply(last, ANSWER)?;
        }
        Ok(())
    });
}
