//! Follows one answer from its pipe to its end.

use std::time::Duration;

use ganglion::bus::Frame;
use ganglion::bus::proxy::RequestProxy;
use ganglion::telemetry::{FinishReason, Receipt};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::Signal;
use tokio::time::timeout;
use zbus::{Connection, OwnedFd, OwnedObjectPath};

use super::waiting::{Ask, Waiting};
use super::{exit_of, refused};
use crate::failure::{Exit, Failure};

/// How long a cancelled answer may take to end before nobody waits for it any more.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// An answer that the daemon is making.
#[derive(Debug)]
pub(crate) struct Answer {
    request: RequestProxy<'static>,
    lines: Lines<BufReader<Receiver>>,
}

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Complete(Receipt),
    /// By Ctrl-C.
    Interrupted,
}

impl Answer {
    /// Takes what `Generate` or `Send` returned.
    ///
    /// # Errors
    /// If the request is no object, or the stream no pipe.
    pub(crate) async fn new(
        connection: &Connection,
        (request, pipe): (OwnedObjectPath, OwnedFd),
    ) -> Result<Self, Failure> {
        let request = RequestProxy::new(connection, request)
            .await
            .map_err(|error| refused(error.into()))?;
        let pipe = Receiver::from_owned_fd(pipe.into())
            .map_err(|error| Failure::new(Exit::Unavailable, format!("the stream: {error}")))?;
        Ok(Self {
            request,
            lines: BufReader::new(pipe).lines(),
        })
    }

    /// Hands every line and its frame to `show` until the answer ends, or `interrupt` cancels it. An
    /// error of `show` drops the pipe, which cancels too. `waiting` is told until the first line comes.
    ///
    /// # Errors
    /// Those of `show`; an answer that ended with an error; a daemon that died.
    pub(crate) async fn follow(
        mut self,
        waiting: Waiting,
        interrupt: &mut Signal,
        mut show: impl FnMut(&str, &Frame) -> Result<(), Failure>,
    ) -> Result<Ending, Failure> {
        let mut waiting = Some(waiting);
        loop {
            let line = tokio::select! {
                line = self.next(waiting.take()) => line,
                _ = interrupt.recv() => {
                    // Best effort: leaving closes the pipe, and that cancels as well.
                    let _ = timeout(CANCEL_WAIT, self.cancelled(interrupt)).await;
                    return Ok(Ending::Interrupted);
                }
            };
            let (line, frame) = parse(line)?;
            show(&line, &frame)?;
            if let Frame::Done {
                finish_reason,
                usage,
                error,
                message,
                ..
            } = frame
            {
                let receipt = Receipt {
                    reason: finish_reason,
                    usage,
                };
                return end(receipt, error.as_deref(), message);
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

    /// Cancels, and reads on to the end: a session takes its next turn only then. A second Ctrl-C
    /// ends the waiting.
    async fn cancelled(&mut self, interrupt: &mut Signal) {
        let drained = async {
            if self.request.cancel().await.is_ok() {
                while let Ok((_, Frame::Text { .. })) = parse(self.lines.next_line().await) {}
            }
        };
        tokio::select! {
            () = drained => (),
            _ = interrupt.recv() => (),
        }
    }
}

fn parse(line: std::io::Result<Option<String>>) -> Result<(String, Frame), Failure> {
    let line = line
        .map_err(|error| Failure::new(Exit::Unavailable, format!("the stream: {error}")))?
        .ok_or_else(|| {
            Failure::new(
                Exit::Unavailable,
                "the daemon died while it answered; see journalctl -u gangliond",
            )
        })?;
    let frame = Frame::from_line(&line).map_err(|error| {
        Failure::new(
            Exit::Unavailable,
            format!("the stream: {error}; are ganglionctl and gangliond of the same version?"),
        )
    })?;
    Ok((line, frame))
}

fn end(receipt: Receipt, error: Option<&str>, message: Option<String>) -> Result<Ending, Failure> {
    match receipt.reason {
        FinishReason::Stop | FinishReason::Length | FinishReason::Context => {
            Ok(Ending::Complete(receipt))
        }
        FinishReason::Cancelled => Err(Failure::new(
            Exit::Failed,
            "the answer was cancelled by the daemon: it is stopping, or this reader stalled",
        )),
        FinishReason::Error => Err(Failure::new(
            match error {
                // It had been accepted, and then the model could not be loaded.
                Some("org.ganglion.Llm1.Error.NotReady") => Exit::Config,
                error => error.map_or(Exit::Failed, exit_of),
            },
            message.unwrap_or_else(|| "the answer ended with an error".into()),
        )),
    }
}
