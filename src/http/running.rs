//! An accepted request: its events, and its permit, which is held until the caller has the answer. A request whose caller
//! leaves is cancelled.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::UnboundedReceiver;

use super::held::Held;
use crate::engine::{EngineError, Event, FinishReason, Handle, Outcome, Reading, Ticket, Usage};
use crate::front::Permit;

/// A request that the engine answers. Dropping it before its end cancels the request.
#[derive(Debug)]
pub(super) struct Running {
    engine: Handle,
    id: u64,
    events: UnboundedReceiver<Event>,
    reading: Reading,
    ended: bool,
    permit: Option<Permit>,
    session: Option<Held>,
}

impl Running {
    /// `session` is released when the answer is complete.
    pub(super) fn new(
        engine: Handle,
        ticket: Ticket,
        permit: Permit,
        session: Option<Held>,
    ) -> Self {
        Self {
            engine,
            id: ticket.id,
            events: ticket.events,
            reading: ticket.reading,
            ended: false,
            permit: Some(permit),
            session,
        }
    }

    /// Returns the next event. After `Done` there is none, and the future is pending for ever.
    pub(super) async fn next(&mut self) -> Event {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if self.ended {
            return Poll::Pending;
        }
        let event = std::task::ready!(self.events.poll_recv(context));
        // The engine thread ended before the request did.
        let event = event.unwrap_or_else(|| {
            let error = EngineError::Stopped.into();
            let usage = Usage::default();
            Event::Done(Outcome::new(FinishReason::Error, usage, Some(error)))
        });
        if let Event::Done(outcome) = &event {
            self.ended = true;
            // The caller may continue the session as soon as it has the end of the answer.
            if let Some(session) = self.session.take() {
                session.end(outcome);
            }
        }
        Poll::Ready(event)
    }

    /// Passes events to `take`, from `first` on, until it returns the outcome.
    pub(super) async fn collect(
        &mut self,
        first: Event,
        mut take: impl FnMut(Event) -> Option<Outcome>,
    ) -> Outcome {
        let mut event = first;
        loop {
            if let Some(outcome) = take(event) {
                return outcome;
            }
            event = self.next().await;
        }
    }

    /// Returns the tokens of the prompt; 0 before the first event.
    pub(super) fn prompt_tokens(&self) -> u32 {
        self.reading.get().1
    }

    /// Returns a response of JSON that holds the permit until it has been written.
    pub(super) fn json(self, json: Vec<u8>) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (kind, self.body(json)).into_response()
    }

    /// Returns a body that holds the permit until it has been written.
    fn body(mut self, bytes: Vec<u8>) -> axum::body::Body {
        axum::body::Body::new(Whole {
            bytes: Some(bytes.into()),
            _permit: self.permit.take(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.engine.cancel(self.id);
        }
    }
}

/// A whole body, and the permit of its request.
#[derive(Debug)]
struct Whole {
    bytes: Option<Bytes>,
    _permit: Option<Permit>,
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(left as u64)
    }
}
