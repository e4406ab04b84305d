//! Follows one answer from its pipe to its end.

use std::time::Duration;

use ganglion::bus::proxy::RequestProxy;
use ganglion::bus::{self, Frame};
use ganglion::telemetry::{FinishReason, Receipt};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::Signal;
use tokio::time::timeout;
use zbus::{Connection, OwnedFd, OwnedObjectPath};

use super::not_accepted;
use super::refusal::exit_of;
use super::waiting::{Ask, Waiting};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, failure};

/// The longest time that the client waits for the end of a cancelled answer.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// An answer that the daemon is generating.
#[derive(Debug)]
pub(crate) struct Answer {
    request: RequestProxy<'static>,
    lines: Lines<BufReader<Receiver>>,
}

impl Answer {
    /// Takes the result of `Generate` or `Send`.
    pub(crate) async fn new(
        connection: &Connection,
        returned: Result<(OwnedObjectPath, OwnedFd), bus::Error>,
    ) -> Outcome<Self> {
        let (request, pipe) = match returned {
            Ok(accepted) => accepted,
            Err(error) => return Err(not_accepted(connection, error).await),
        };
        let request = RequestProxy::new(connection, request).await?;
        let pipe = Receiver::from_owned_fd(pipe.into()).or_fail(Exit::Unavailable, "the stream")?;
        let lines = BufReader::new(pipe).lines();
        Ok(Self { request, lines })
    }

    /// Hands every line and its frame to `show` until the answer ends, or `interrupt` cancels it. An error of `show`
    /// drops the pipe, which cancels too. `waiting` is shown until the first line.
    ///
    /// # Errors
    /// Those of `show`; an answer that ended with an error, or by Ctrl-C; a daemon that died. An answer that was cut is
    /// not an error here: see [`Ended::whole`].
    pub(crate) async fn follow(
        mut self,
        waiting: Waiting,
        interrupt: &mut Signal,
        mut show: impl FnMut(&str, &Frame) -> Outcome,
    ) -> Outcome<Ended> {
        let mut waiting = Some(waiting);
        loop {
            let line = tokio::select! {
                line = self.next(waiting.take()) => line,
                _ = interrupt.recv() => {
                    // Best effort: closing the pipe cancels as well.
                    let _ = timeout(CANCEL_WAIT, self.cancelled(interrupt)).await;
                    return Err(Failure::quiet(Exit::Interrupted));
                }
            };
            let (line, frame) = parse(line)?;
            show(&line, &frame)?;
            if let Frame::Done {
                finish_reason: reason,
                usage,
                incomplete,
                error,
                message,
                ..
            } = frame
            {
                let receipt = Receipt { reason, usage };
                let ended = Ended {
                    receipt,
                    incomplete,
                };
                return ended.by_itself(error.as_deref(), message);
            }
        }
    }

    async fn next(&mut self, waiting: Option<Waiting>) -> std::io::Result<Option<String>> {
        let line = self.lines.next_line();
        match waiting {
            Some(mut waiting) => waiting.during(Ask::Request(&self.request), line).await,
            None => line.await,
        }
    }

    /// Cancels, and reads to the end, because a session accepts its next turn only then. A second Ctrl-C ends the wait.
    async fn cancelled(&mut self, interrupt: &mut Signal) {
        let drained = async {
            if self.request.cancel().await.is_ok() {
                while let Ok((_, frame)) = parse(self.lines.next_line().await) {
                    if matches!(frame, Frame::Done { .. }) {
                        break;
                    }
                }
            }
        };
        tokio::select! {
            () = drained => (),
            _ = interrupt.recv() => (),
        }
    }
}

fn parse(line: std::io::Result<Option<String>>) -> Outcome<(String, Frame)> {
    let Some(line) = line.or_fail(Exit::Unavailable, "the stream")? else {
        bail!(Unavailable: "the daemon died during the answer; see journalctl -u gangliond");
    };
    let frame = Frame::from_line(&line).map_err(|error| {
        failure!(Unavailable: "the stream: {error}; are ganglionctl and gangliond of the same version?")
    })?;
    Ok((line, frame))
}

/// The end of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) receipt: Receipt,
    /// Whether the answer had a required format and was cut off.
    incomplete: bool,
}

impl Ended {
    /// Returns itself, unless the daemon ended the answer with an error.
    fn by_itself(self, error: Option<&str>, message: Option<String>) -> Outcome<Self> {
        match self.receipt.reason {
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::Length
            | FinishReason::Context
            | FinishReason::Deadline => Ok(self),
            FinishReason::Cancelled => bail!(
                Failed: "the answer is incomplete: the daemon cancelled it, because it is stopping or this reader stalled; ask again"
            ),
            FinishReason::Error => Err(Failure {
                exit: match error {
                    // The request had been accepted before the model failed to load.
                    Some("org.ganglion.Llm1.Error.NotReady") => Exit::Config,
                    error => error.map_or(Exit::Failed, exit_of),
                },
                message: message.unwrap_or_else(|| "the answer ended with an error".into()),
            }),
        }
    }

    /// Returns whether the answer is complete.
    ///
    /// # Errors
    /// `Exit::Failed` if it was cut, with the reason and the remedy.
    pub(crate) fn whole(self) -> Outcome {
        let Receipt { reason, usage } = self.receipt;
        let tokens = usage.completion_tokens;
        match reason {
            FinishReason::Length => bail!(
                Failed: "the answer is incomplete: it was cut after {tokens} tokens; give a larger --max-tokens"
            ),
            FinishReason::Context => bail!(
                Failed: "the answer is incomplete: after {tokens} tokens of it the context was full; give a shorter prompt, \
                         or raise kv.context"
            ),
            FinishReason::Deadline => bail!(
                Failed: "the answer is incomplete: its deadline passed after {tokens} tokens; give a larger --deadline-ms"
            ),
            reason if self.incomplete => bail!(
                Failed: "the answer is incomplete: it does not have the required format ({})", reason.name()
            ),
            _ => Ok(()),
        }
    }
}
