//! The reading end of a request's stream.

use ganglion::bus::Frame;
use ganglion::telemetry::{FinishReason, Usage};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use zbus::OwnedFd;

use super::daemon::eventually;

pub(crate) struct Reader {
    lines: Lines<BufReader<Receiver>>,
    seq: u64,
}

/// A complete stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) reason: FinishReason,
    pub(crate) usage: Usage,
    /// Log probabilities per token, if requested.
    pub(crate) logprobs: Vec<f32>,
    /// D-Bus name and text.
    pub(crate) error: Option<(String, String)>,
}

impl Reader {
    pub(crate) fn new(stream: OwnedFd) -> Self {
        let pipe = Receiver::from_owned_fd(stream.into()).expect("the stream is a pipe");
        Self {
            lines: BufReader::new(pipe).lines(),
            seq: 0,
        }
    }

    /// Returns the next frame after a check of its number, or `None` at the end of the file.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let line = eventually(self.lines.next_line())
            .await
            .expect("the pipe is read")?;
        let frame = Frame::from_line(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(frame.seq(), self.seq, "frames are numbered without a gap");
        self.seq += 1;
        Some(frame)
    }

    /// Returns the text of the remaining frames.
    pub(crate) async fn rest(self) -> String {
        self.answer().await.text
    }

    /// Reads everything up to the last frame, which the end of the file must follow.
    pub(crate) async fn answer(mut self) -> Answer {
        let (mut text, mut logprobs) = (String::new(), Vec::new());
        loop {
            match self
                .next()
                .await
                .expect("the stream ends with a last frame")
            {
                Frame::Text {
                    text: more,
                    logprobs: scores,
                    ..
                } => {
                    text.push_str(&more);
                    logprobs.extend(scores.iter().map(|one| one.logprob));
                }
                Frame::Reasoning { .. } | Frame::ToolCall { .. } => {}
                Frame::Done {
                    finish_reason,
                    usage,
                    error,
                    message,
                    ..
                } => {
                    assert_eq!(self.next().await, None, "nothing follows the last frame");
                    return Answer {
                        text,
                        reason: finish_reason,
                        usage,
                        logprobs,
                        error: error.zip(message),
                    };
                }
            }
        }
    }
}
