//! The body of a streamed answer. It takes events when the connection takes bytes: a slow reader leaves them in the
//! engine's channel, which `max_tokens` bounds, and the server ends connections that take nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};

use super::super::running::Running;
use super::chunks::Chunks;
use crate::engine::Event;

/// Bytes of one frame; a frame may exceed it by one event.
const FRAME: usize = 16 << 10;

/// A streamed answer. Dropping it before its end cancels the request.
#[derive(Debug)]
pub(super) struct Stream {
    running: Running,
    chunks: Chunks,
    /// Whether the last event has been written.
    ended: bool,
}

impl Stream {
    /// Makes the body of an answer whose first event has arrived.
    pub(super) fn new(running: Running, mut chunks: Chunks, first: Event) -> Self {
        let ended = matches!(first, Event::Done(_));
        chunks.push(first);
        Self {
            running,
            chunks,
            ended,
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        // All events that have arrived go into one write.
        while !stream.ended && stream.chunks.unsent() < FRAME {
            let Poll::Ready(event) = stream.running.poll_next(context) else {
                break;
            };
            stream.ended = matches!(event, Event::Done(_));
            stream.chunks.push(event);
        }
        if stream.chunks.unsent() > 0 {
            let bytes = Bytes::from(stream.chunks.take());
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if stream.ended {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.chunks.unsent() == 0
    }
}
