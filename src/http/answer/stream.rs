//! The body of a streamed answer. It takes events when the connection takes bytes: a slow reader leaves them in the
//! engine's channel, which `max_tokens` bounds, and the server ends connections that take nothing.
//!
//! A request may be queued, or its prompt prefilled, for minutes. Signs of life keep clients and proxies from closing the
//! connection meanwhile: many of them close it after a minute without a byte.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::super::running::Running;
use crate::engine::Event;

/// Bytes of one frame; a frame may exceed it by one event.
const FRAME: usize = 16 << 10;

/// Writes the events of an answer as server-sent events.
pub(in crate::http) trait Writer: Unpin + Send + 'static {
    /// Adds an event of the engine.
    fn push(&mut self, event: Event);

    /// Adds a sign of life, which changes nothing of the answer.
    fn ping(&mut self);

    /// Returns the number of bytes that have not been sent.
    fn unsent(&self) -> usize;

    /// Returns the bytes that have not been sent, and forgets them.
    fn take(&mut self) -> Vec<u8>;
}

/// Returns the response with a streamed answer. Without a `first` event it begins with a sign of life, and `silence` is the
/// longest time between two of them.
pub(in crate::http) fn response(
    running: Running,
    writer: impl Writer,
    first: Option<Event>,
    silence: Duration,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let body = axum::body::Body::new(Stream::new(running, writer, first, silence));
    (headers, body).into_response()
}

/// A streamed answer. Dropping it before its end cancels the request.
#[derive(Debug)]
struct Stream<W> {
    running: Running,
    writer: W,
    /// Whether the last event has been written.
    ended: bool,
    silence: Duration,
    /// The end of the silence since the last bytes. A later end wakes nothing at the earlier one.
    silent: Pin<Box<Sleep>>,
}

impl<W: Writer> Stream<W> {
    fn new(running: Running, mut writer: W, first: Option<Event>, silence: Duration) -> Self {
        let ended = matches!(first, Some(Event::Done(_)));
        match first {
            Some(event) => writer.push(event),
            None => writer.ping(),
        }
        Self {
            running,
            writer,
            ended,
            silence,
            silent: Box::pin(sleep(silence)),
        }
    }
}

impl<W: Writer> Body for Stream<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        // All events that have arrived go into one write.
        while !stream.ended && stream.writer.unsent() < FRAME {
            let Poll::Ready(event) = stream.running.poll_next(context) else {
                break;
            };
            stream.ended = matches!(event, Event::Done(_));
            stream.writer.push(event);
        }
        let is_silent = stream.writer.unsent() == 0 && !stream.ended;
        if is_silent && stream.silent.as_mut().poll(context).is_ready() {
            stream.writer.ping();
        }
        if stream.writer.unsent() > 0 {
            let until = Instant::now() + stream.silence;
            stream.silent.as_mut().reset(until);
            let bytes = Bytes::from(stream.writer.take());
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if stream.ended {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.writer.unsent() == 0
    }
}

#[cfg(test)]
mod tests;
