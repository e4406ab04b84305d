//! Random changes of valid frames: headers, signatures, variants and options.
//!
//! The same seed gives the same frames. A frame may be valid; only an honest client's request afterwards shows whether
//! the daemon survived.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::super::wire::{
    DESTINATION, INTERFACE, MEMBER, Message, PATH, SIGNATURE, Value, Wire, later,
};
use super::{Until, calls};

const SEED: u64 = 1;
const ANSWER: Duration = Duration::from_secs(1);
/// The depth of nested values; the bus allows 64 variants.
const DEPTH: usize = 6;
const TEXTS: [&str; 8] = [
    "",
    "x",
    "user",
    "content",
    "seed",
    "\u{0}",
    "é\u{202e}",
    "a{sv}",
];
const OPTIONS: [&str; 8] = [
    "max_tokens",
    "temperature",
    "top_k",
    "seed",
    "stop",
    "stream",
    "thinking",
    "system",
];

pub(super) fn run_until(bus: &Path, until: &Until) {
    run(bus, SEED, until, u64::MAX);
}

/// Sends frames until the time is over or that many are sent. Returns the number of connections that the bus closed.
pub(crate) fn run(bus: &Path, seed: u64, until: &Until, frames: u64) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let mut hung_up = 0;
    let mut wire = None;
    for _ in 0..frames {
        if until.is_over() {
            break;
        }
        let message = message(&mut rng);
        let Some(open) = wire.take().or_else(|| Wire::connect(bus).ok()) else {
            thread::sleep(super::PAUSE);
            continue;
        };
        wire = send(open, message, &mut rng);
        hung_up += u64::from(wire.is_none());
    }
    hung_up
}

/// Returns `None` if the bus has closed the connection.
fn send(mut wire: Wire, message: Message, rng: &mut Rng) -> Option<Wire> {
    let whole = rng.u8(..4) > 0;
    let mut bytes = wire.numbered(message).bytes();
    if !whole {
        flip(&mut bytes, rng);
    }
    wire.write(&bytes, later(ANSWER)).ok()?;
    // Answers are read from time to time.
    while wire.next(Duration::ZERO).ok()?.is_some() {}
    // A frame with a wrong length swallows the following ones.
    whole.then_some(wire)
}

/// Changes some bytes, often those of lengths.
fn flip(bytes: &mut [u8], rng: &mut Rng) {
    for _ in 0..rng.usize(1..4) {
        let at = if rng.bool() {
            rng.usize(..16)
        } else {
            rng.usize(..bytes.len())
        };
        // The announced length stays within the bus's limit.
        if at != 6 && at != 7 && at != 14 && at != 15 {
            bytes[at] = rng.u8(..);
        }
    }
}

/// A call, changed or not.
pub(crate) fn message(rng: &mut Rng) -> Message {
    let mut message = match rng.u8(..10) {
        0 => calls::ping(),
        1 => calls::introspect(),
        2 => calls::get_all(),
        3 => calls::get("State"),
        4 => calls::manager("Generate")
            .with(messages(rng))
            .with(options(rng)),
        5 => calls::manager("Complete")
            .with(rng.choice(TEXTS).unwrap_or(""))
            .with(options(rng)),
        6 => calls::manager("OpenSession").with(options(rng)),
        7 => calls::manager("Generate")
            .with(value(rng, DEPTH))
            .with(value(rng, DEPTH)),
        8 => calls::session("/org/ganglion/Llm1/session/1", "Send").with(value(rng, DEPTH)),
        _ => (0..rng.usize(..4)).fold(calls::manager("Generate"), |call, _| {
            call.with(value(rng, DEPTH))
        }),
    };
    message.big_endian = rng.u8(..4) == 0;
    if rng.u8(..4) == 0 {
        message.flags = rng.u8(..8);
    }
    match rng.u8(..12) {
        0 => message.field(rng.u8(10..), value(rng, DEPTH)),
        1 => message.field(rng.u8(..10), value(rng, DEPTH)),
        2 => message.instead(
            rng.choice([PATH, INTERFACE, MEMBER]).unwrap_or(PATH),
            value(rng, 1),
        ),
        3 => message.instead(MEMBER, rng.choice(TEXTS).unwrap_or("").into()),
        4 => message.instead(SIGNATURE, Value::Signature(signature(rng))),
        5 => {
            message.kind = rng.u8(..6);
            message
        }
        6 => message.instead(DESTINATION, ganglion::bus::NAME.into()),
        _ => message,
    }
}

fn messages(rng: &mut Rng) -> Value {
    let message = |rng: &mut Rng| {
        let role = rng
            .choice(["user", "system", "assistant", "tool", "x", ""])
            .unwrap_or("");
        Value::Struct(vec![
            role.into(),
            dictionary(rng, &["content", "name", "x"]),
        ])
    };
    Value::Array(
        "(sa{sv})".to_owned(),
        (0..rng.usize(..4)).map(|_| message(rng)).collect(),
    )
}

fn options(rng: &mut Rng) -> Value {
    dictionary(rng, &OPTIONS)
}

fn dictionary(rng: &mut Rng, keys: &[&str]) -> Value {
    let entry = |rng: &mut Rng| {
        let key = keys[rng.usize(..keys.len())].into();
        Value::Entry(Box::new((key, value(rng, DEPTH).variant())))
    };
    Value::Array(
        "{sv}".to_owned(),
        (0..rng.usize(..4)).map(|_| entry(rng)).collect(),
    )
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    let inner = depth.saturating_sub(1);
    match rng.u8(..if depth == 0 { 8 } else { 13 }) {
        0 => Value::Byte(rng.u8(..)),
        1 => Value::Bool(rng.bool()),
        2 => Value::U32(rng.choice([0, 1, 64, u32::MAX]).unwrap_or(0)),
        3 => Value::U64(rng.u64(..)),
        4 => Value::Double(
            rng.choice([0.0, -1.0, f64::NAN, f64::INFINITY])
                .unwrap_or(0.0),
        ),
        5 => rng.choice(TEXTS).unwrap_or("").into(),
        6 => Value::Path(
            rng.choice(["/", "/a", "", "//", "/a/"])
                .unwrap_or("/")
                .to_owned(),
        ),
        7 => Value::Signature(signature(rng)),
        8 => value(rng, inner).variant(),
        9 => {
            let first = value(rng, inner);
            Value::Array(first.signature(), vec![first; rng.usize(..3)])
        }
        10 => Value::Struct((0..rng.usize(..3)).map(|_| value(rng, inner)).collect()),
        11 => dictionary(rng, &OPTIONS),
        _ => Value::Lie {
            signature: signature(rng),
            align: rng.choice([1, 2, 4, 8]).unwrap_or(1),
            bytes: (0..rng.usize(..24)).map(|_| rng.u8(..)).collect(),
        },
    }
}

/// Characters of signatures, in an order that may be invalid.
fn signature(rng: &mut Rng) -> String {
    let length = if rng.u8(..16) == 0 {
        250
    } else {
        rng.usize(..8)
    };
    let one = |_| char::from(rng.choice(*b"ybnqiuxtdsogvhasv(){}aa").unwrap_or(b'y'));
    (0..length).map(one).collect()
}
