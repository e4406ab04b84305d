//! Streams whose events come late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use http_body_util::BodyExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::super::super::terms::CHAT;
use super::super::super::tests::{done, engine};
use super::super::begin::Begun;
use super::super::heading::Heading;
use super::*;
use crate::engine::{Client, EngineError, FinishReason, Outcome, Reading, Ticket, Usage};

const SHORT: Duration = Duration::from_millis(1);
/// No test takes so long.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Writes texts as they are, signs of life as points, and the end as an exclamation mark.
#[derive(Debug, Default)]
struct Plain(Vec<u8>);

impl Writer for Plain {
    fn push(&mut self, event: Event) {
        match event {
            Event::Text(text) => self.0.extend_from_slice(text.as_bytes()),
            _ => self.0.push(b'!'),
        }
    }

    fn ping(&mut self) {
        self.0.push(b'.');
    }

    fn unsent(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Counts how often a task is woken.
#[derive(Debug, Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a request, and the sender of its events.
fn begun() -> (Begun, UnboundedSender<Event>) {
    let front = engine("").front;
    let client = Client {
        name: "test".into(),
        user: 7,
    };
    let permit = front.admit(&client).expect("a permit");
    let (sender, events) = unbounded_channel();
    let ticket = Ticket {
        id: u64::MAX,
        events,
        reading: Reading::default(),
    };
    let running = Running::new(front.engine().clone(), ticket, permit, None);
    let heading = Heading {
        id: "0".to_owned(),
        created: 1,
        model: "m".to_owned(),
    };
    (Begun { heading, running }, sender)
}

fn text() -> Event {
    Event::Text("one".to_owned())
}

fn failed() -> Event {
    let error = EngineError::Stopped.into();
    let outcome = Outcome::new(FinishReason::Error, Usage::default(), Some(error));
    Event::Done(outcome)
}

/// Returns the next bytes of a stream.
async fn next(stream: &mut Stream<Plain>) -> Bytes {
    let frame = stream.frame().await.expect("no end").expect("a frame");
    frame.into_data().expect("data")
}

#[tokio::test]
async fn a_silent_stream_sends_signs_of_life() {
    let (mut begun, events) = begun();
    let first = begun.first_within(SHORT, &CHAT).await;
    assert_eq!(first, Ok(None));
    let mut stream = Stream::new(begun.running, Plain::default(), None, SHORT);
    for _ in 0..3 {
        assert_eq!(next(&mut stream).await, ".");
    }
    events.send(text()).expect("it listens");
    let done = Event::Done(done(FinishReason::Stop));
    events.send(done).expect("it listens");
    let rest = stream.collect().await.expect("bytes").to_bytes();
    let rest = rest.iter().filter(|byte| **byte != b'.');
    assert_eq!(rest.copied().collect::<Vec<_>>(), b"one!");
}

#[tokio::test]
async fn only_tokens_wake_a_stream_that_has_them_in_time() {
    let (mut begun, events) = begun();
    events.send(text()).expect("it listens");
    let first = begun.first_within(LONG, &CHAT).await.expect("no error");
    let mut stream = Stream::new(begun.running, Plain::default(), first, LONG);
    assert_eq!(next(&mut stream).await, "one");
    let count = Arc::new(Wakes::default());
    let waker = Waker::from(count.clone());
    let context = &mut Context::from_waker(&waker);
    for number in 1..=9 {
        assert!(Pin::new(&mut stream).poll_frame(context).is_pending());
        let before = Instant::now();
        events.send(text()).expect("it listens");
        assert_eq!(count.0.load(Ordering::Relaxed), number);
        let sent = Pin::new(&mut stream).poll_frame(context);
        assert!(sent.is_ready());
        assert!(
            stream.silent.deadline() >= before + LONG,
            "a token ends the silence"
        );
    }
}

#[tokio::test]
async fn a_late_error_is_an_event() {
    let (mut early, events) = begun();
    events.send(failed()).expect("it listens");
    let refused = early.first_within(LONG, &CHAT).await;
    refused.expect_err("it has the status of the error");

    let (late, events) = begun();
    let mut stream = Stream::new(late.running, Plain::default(), None, LONG);
    assert_eq!(next(&mut stream).await, ".");
    events.send(failed()).expect("it listens");
    assert_eq!(next(&mut stream).await, "!");
    assert!(stream.is_end_stream());
}
