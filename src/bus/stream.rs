//! The pipe of one request: writes frames as fast as its reader takes them, and waits for nobody else.

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
use super::permits::Permit;
use crate::engine::{Event, Outcome};
use crate::tools;

/// Makes a pipe: the daemon's end, and the caller's.
pub(super) fn open() -> io::Result<(Sender, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    Ok((Sender::from_owned_fd(OwnedFd::from(writer))?, reader))
}

/// So long passes between two looks whether a pipe has been read: at first, and at most. The reader sees its end at the
/// next.
const LOOKS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(20)];

/// Why a stream ended before its reader had everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The read end is closed.
    Closed,
    /// Nothing was read for as long as a reader may stall.
    Stalled,
}

/// Writes all events as frames; `done` learns the outcome before its frame can be read.
pub(super) async fn write(
    events: &mut UnboundedReceiver<Event>,
    pipe: &Sender,
    stall: Duration,
    mut done: impl FnMut(Outcome),
) -> Result<(), Abandoned> {
    let mut frames = Frames::default();
    let mut deadline = Instant::now() + stall;
    loop {
        // All that the engine has said meanwhile goes into one write.
        while !frames.last
            && let Ok(event) = events.try_recv()
        {
            frames.push(event, &mut done);
        }
        if frames.unread().is_empty() {
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
        match pipe.try_write(frames.unread()) {
            Ok(written) => {
                frames.read(written);
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

/// Returns when all that was written has been read, or nobody can read it any more; then gives `permit` back. Until then
/// the daemon keeps the memory of the pipe, and maybe the bus the reader's end.
pub(super) async fn drained(pipe: Sender, permit: Permit) {
    let mut pause = LOOKS[0];
    while fionread(&pipe).is_ok_and(|unread| unread > 0) {
        tokio::select! {
            () = sleep(pause) => pause = (2 * pause).min(LOOKS[1]),
            _ = pipe.ready(Interest::ERROR) => break,
        }
    }
    drop((pipe, permit));
}

/// Lines on their way. Bounded by the request's `max_tokens`.
#[derive(Default)]
struct Frames {
    lines: Vec<u8>,
    taken: usize,
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

    fn unread(&self) -> &[u8] {
        self.lines.get(self.taken..).unwrap_or_default()
    }

    fn read(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.unread().is_empty() {
            self.lines.clear();
            self.taken = 0;
        }
    }
}
