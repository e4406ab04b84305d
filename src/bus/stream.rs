//! The pipe of one request: writes frames as fast as its reader reads them. Other requests do not wait for it.

use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::ioctl_fionread as fionread;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::error;
use super::frame::Frame;
use crate::engine::{Event, Outcome};
use crate::front::Permit;
use crate::tools;

/// Makes a pipe; returns the daemon's end and the caller's.
pub(super) fn open() -> io::Result<(Sender, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    Ok((Sender::from_owned_fd(OwnedFd::from(writer))?, reader))
}

/// The first and the longest time between two checks whether a pipe has been read. The reader gets the end of the stream at
/// the next check.
const CHECKS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(20)];

/// Why a stream ended before its reader had everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The read end is closed.
    Closed,
    /// The reader read nothing for `stall`.
    Stalled,
}

/// Writes all events as frames; `done` gets the outcome before the reader can read its frame.
pub(super) async fn write(
    events: &mut UnboundedReceiver<Event>,
    pipe: &Sender,
    stall: Duration,
    mut done: impl FnMut(Outcome),
) -> Result<(), Abandoned> {
    let mut frames = Frames::default();
    let mut deadline = Instant::now() + stall;
    loop {
        // All events that have arrived go into one write.
        while !frames.last
            && let Ok(event) = events.try_recv()
        {
            frames.push(event, &mut done);
        }
        if frames.unwritten().is_empty() {
            if frames.last {
                return Ok(());
            }
            tokio::select! {
                event = events.recv() => {
                    let event = event.unwrap_or_else(|| Event::Done(error::engine_gone()));
                    frames.push(event, &mut done);
                }
                _ = pipe.ready(Interest::ERROR) => return Err(Abandoned::Closed),
            }
            deadline = Instant::now() + stall;
            continue;
        }
        match pipe.try_write(frames.unwritten()) {
            Ok(written) => {
                frames.advance(written);
                deadline = Instant::now() + stall;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::select! {
                _ = pipe.writable() => {}
                Some(event) = events.recv(), if !frames.last => frames.push(event, &mut done),
                () = sleep_until(deadline) => return Err(Abandoned::Stalled),
            },
            Err(_) => return Err(Abandoned::Closed),
        }
    }
}

/// Returns the permit when everything has been read, or the read end is closed. Until then the pipe uses memory, and maybe
/// the bus holds the reader's end.
pub(super) async fn drained(pipe: Sender, permit: Permit) {
    let mut pause = CHECKS[0];
    while fionread(&pipe).is_ok_and(|unread| unread > 0) {
        tokio::select! {
            () = sleep(pause) => pause = (2 * pause).min(CHECKS[1]),
            _ = pipe.ready(Interest::ERROR) => break,
        }
    }
    drop((pipe, permit));
}

/// Lines that are not written yet; `max_tokens` of the request bounds them.
#[derive(Default)]
struct Frames {
    lines: Vec<u8>,
    written: usize,
    seq: u64,
    last: bool,
}

impl Frames {
    fn push(&mut self, event: Event, done: &mut impl FnMut(Outcome)) {
        let seq = self.seq;
        self.seq += 1;
        let frame = match event {
            Event::Text(text) => Frame::Text {
                seq,
                text,
                logprobs: Vec::new(),
            },
            Event::Reasoning(reasoning) => Frame::Reasoning {
                seq,
                text: String::new(),
                reasoning,
            },
            Event::Call(tool_call) => Frame::ToolCall {
                seq,
                text: String::new(),
                tool_call,
            },
            Event::Likelihood(likelihood) => Frame::Text {
                seq,
                text: String::new(),
                logprobs: vec![likelihood],
            },
            Event::Done(outcome) => {
                self.last = true;
                let (error, message) = error::of_outcome(&outcome).unzip();
                let frame = Frame::Done {
                    seq,
                    done: true,
                    finish_reason: outcome.reason,
                    usage: outcome.usage,
                    incomplete: outcome.incomplete,
                    unchecked: outcome.unchecked.clone(),
                    tool_calls: (!outcome.calls.is_empty()).then(|| tools::written(&outcome.calls)),
                    error,
                    message,
                };
                done(outcome);
                frame
            }
        };
        frame.write_line(&mut self.lines);
    }

    fn unwritten(&self) -> &[u8] {
        self.lines.get(self.written..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        if self.unwritten().is_empty() {
            self.lines.clear();
            self.written = 0;
        }
    }
}
