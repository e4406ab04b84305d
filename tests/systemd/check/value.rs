//! Makes D-Bus values from signatures: words that the daemon knows, limits of each type, and random values.

use std::fs::File;
use std::os::fd::OwnedFd;

use fastrand::Rng;
use zbus::{Array, Dict, ObjectPath, Signature, Str, Structure, Variant};

/// The names that pass the first check.
const WORDS: &[&str] = &[
    "",
    " ",
    "assistant",
    "content",
    "max_tokens",
    "min_p",
    "org.ganglion.Llm1.Manager",
    "pipe",
    "repetition_penalty",
    "role",
    "seed",
    "signals",
    "stop",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool",
    "top_k",
    "top_p",
    "user",
    "../../etc/shadow",
    "{{ messages[0] }}",
    "<|im_start|>system",
    "%s%n\u{1b}[2J",
    "\u{202e}\u{feff}\u{10ffff}",
];
const DEEPEST: u8 = 4;

/// Returns a value of that signature.
pub(crate) fn of(signature: &Signature, rng: &mut Rng) -> zbus::Result<Variant<'static>> {
    value(signature, rng, 0)
}

/// The signatures of variants and wrong calls.
pub(crate) fn any_signature(rng: &mut Rng) -> Signature {
    let text = rng.choice([
        "y",
        "b",
        "n",
        "q",
        "i",
        "u",
        "x",
        "t",
        "d",
        "s",
        "o",
        "g",
        "h",
        "v",
        "as",
        "av",
        "a{sv}",
        "(sv)",
        "a(sa{sv})",
        "aay",
        "a{s(id)}",
    ]);
    text.and_then(|text| text.parse().ok())
        .unwrap_or(Signature::Str)
}

fn value(signature: &Signature, rng: &mut Rng, depth: u8) -> zbus::Result<Variant<'static>> {
    Ok(match signature {
        Signature::Unit | Signature::U8 => Variant::U8(rng.u8(..)),
        Signature::Bool => Variant::Bool(rng.bool()),
        Signature::I16 => Variant::I16(rng.i16(..)),
        Signature::U16 => Variant::U16(rng.u16(..)),
        Signature::I32 => Variant::I32(any(rng, &[0, 1, -1, i32::MIN, i32::MAX])),
        Signature::U32 => Variant::U32(any(rng, &[0, 1, 16, 4096, u32::MAX])),
        Signature::I64 => Variant::I64(any(rng, &[0, 1, -1, i64::MIN, i64::MAX])),
        Signature::U64 => Variant::U64(any(rng, &[0, 1, 1 << 53, u64::MAX])),
        Signature::F64 => Variant::F64(any(
            rng,
            &[
                0.0,
                -0.0,
                0.5,
                1.0,
                2.0,
                -1.0,
                1e308,
                f64::NAN,
                f64::INFINITY,
            ],
        )),
        Signature::Str => Variant::Str(Str::from(text(rng))),
        Signature::Signature => Variant::Signature(any_signature(rng)),
        Signature::ObjectPath => {
            let path = any(
                rng,
                &["/", "/org/ganglion/Llm1", "/org/ganglion/Llm1/session/1"],
            );
            Variant::ObjectPath(ObjectPath::from_static_str(path)?)
        }
        Signature::Fd => Variant::Fd(OwnedFd::from(File::open("/dev/null")?).into()),
        Signature::Variant => {
            let inner = match any_signature(rng) {
                // The bus ends a connection that sends more than a few descriptors at once.
                Signature::Fd if depth > 0 => Signature::U32,
                _ if depth >= DEEPEST => Signature::U32,
                other => other,
            };
            Variant::Variant(Box::new(value(&inner, rng, depth + 1)?))
        }
        Signature::Array(child) => {
            let mut array = Array::new(child);
            for _ in 0..count(rng, depth) {
                array.append(value(child, rng, depth + 1)?)?;
            }
            Variant::Array(array)
        }
        Signature::Dict { key, value: held } => {
            let mut dict = Dict::new(key, held);
            for _ in 0..count(rng, depth) {
                dict.append(value(key, rng, depth + 1)?, value(held, rng, depth + 1)?)?;
            }
            Variant::Dict(dict)
        }
        Signature::Structure(fields) => {
            let mut structure = Structure::builder();
            for field in fields.iter() {
                structure.push_value(value(field, rng, depth + 1)?);
            }
            Variant::Structure(structure.build()?)
        }
    })
}

fn any<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.usize(..values.len())]
}

/// Returns mostly small numbers, and sometimes very large ones.
fn count(rng: &mut Rng, depth: u8) -> usize {
    match rng.u8(..) {
        0..=2 if depth < 2 => 300,
        _ if depth >= DEEPEST => 0,
        _ => rng.usize(..4),
    }
}

fn text(rng: &mut Rng) -> String {
    match rng.u8(..) {
        0..=5 => any(rng, WORDS).repeat(rng.usize(1..2000)),
        6..=60 => (0..rng.usize(..40)).map(|_| rng.char('\u{1}'..)).collect(),
        _ => any(rng, WORDS).to_owned(),
    }
}
