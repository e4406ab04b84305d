//! The resources of a process, and repeated work that makes leaks visible.

use std::path::Path;
use std::time::Duration;
use std::{fmt, fs, io};

use super::attack::calls;
use super::wire::{Message, Received, Wire};

/// A load of a model may take a while.
const ANSWER: Duration = Duration::from_secs(120);

/// The resources at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Bytes of memory in use.
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
}

impl Held {
    pub(crate) fn by(process: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let number = |of: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(of));
            let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            number.ok_or_else(|| io::Error::other(format!("no {of}")))
        };
        Ok(Self {
            resident: number("VmRSS:")? * 1024,
            descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count(),
            threads: number("Threads:")?,
        })
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resident,
            descriptors,
            threads,
        } = self;
        write!(
            f,
            "{} MiB resident, {descriptors} descriptors, {threads} threads",
            resident >> 20
        )
    }
}

fn answered(wire: &mut Wire, call: Message) -> io::Result<Received> {
    let answer = wire.ask(call, ANSWER)?;
    if answer.error.is_empty() {
        return Ok(answer);
    }
    Err(io::Error::other(format!(
        "{}: {}",
        answer.error,
        answer.text().unwrap_or_default()
    )))
}

/// Reloads a model many times: `file` gets another context each time, and otherwise has `lines`.
pub(crate) fn reloads(bus: &Path, count: usize, file: &Path, lines: &str) -> io::Result<()> {
    let mut wire = Wire::connect(bus)?;
    for number in 0..count {
        fs::write(
            file,
            format!("kv.context = {}\n{lines}\n", 256 + number % 2),
        )?;
        answered(&mut wire, calls::manager("Reload"))?;
    }
    Ok(())
}

/// Requests that end before their answers do.
pub(crate) fn cancelled(bus: &Path, count: usize) -> io::Result<()> {
    let mut wire = Wire::connect(bus)?;
    for _ in 0..count {
        let request = answered(&mut wire, calls::generate("Tell a long story.", []))?;
        let path = request.text().unwrap_or_default();
        wire.ask(calls::cancel(&path), ANSWER)?;
        // The request's place is free once the cancelled answer has been read.
        for mut stream in request.descriptors {
            io::copy(&mut stream, &mut io::sink())?;
        }
    }
    Ok(())
}

/// Conversations without a turn, and every hundredth with one.
pub(crate) fn sessions(bus: &Path, count: usize) -> io::Result<()> {
    let mut wire = Wire::connect(bus)?;
    for number in 0..count {
        let opened = answered(
            &mut wire,
            calls::open_session([("system", "You are a robot.".into())]),
        )?;
        let path = opened.text().unwrap_or_default();
        if number % 100 == 0 {
            let turn = calls::send(&path, "hello", [("max_tokens", 1.into())]);
            for mut stream in answered(&mut wire, turn)?.descriptors {
                io::copy(&mut stream, &mut io::sink())?;
            }
        }
        answered(&mut wire, calls::session(&path, "Close"))?;
    }
    Ok(())
}
