//! Reads `a{sv}` options. Nothing is ignored: what is unknown, mistyped or out of range is an error that names it.

use std::fmt::Display;
use std::ops::RangeInclusive;

use zbus::Variant;

use super::proxy::Info;
use super::{BusConfig, Error};
use crate::engine::Options;
use crate::sampler::Parameters;

const REQUEST: &str =
    "max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop and thinking";
const STOP_STRINGS: usize = 16;
const STOP_BYTES: usize = 1024;

/// How the text reaches the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Pipe,
    Signals,
}

/// Options of a request that streams.
pub(super) fn streamed(options: &Info, config: &BusConfig) -> Result<(Options, Stream), Error> {
    let mut stream = Stream::Pipe;
    let request = read(options, config, |name, value| {
        match (name, value) {
            ("stream", Variant::Str(kind)) if kind == "pipe" => stream = Stream::Pipe,
            ("stream", Variant::Str(kind)) if kind == "signals" => stream = Stream::Signals,
            ("stream", _) => return Err(wrong(name, value, &"\"pipe\" or \"signals\" (s)")),
            _ => return Err(unknown(name, &format_args!("{REQUEST}, and stream"))),
        }
        Ok(())
    })?;
    Ok((request, stream))
}

/// Options of a request that answers in its reply.
pub(super) fn complete(options: &Info, config: &BusConfig) -> Result<Options, Error> {
    read(options, config, |name, _| Err(unknown(name, &REQUEST)))
}

/// Options of `OpenSession`: its system message.
pub(super) fn session(options: &Info) -> Result<Option<String>, Error> {
    let mut system = None;
    for (name, value) in options {
        match (name.as_str(), &**value) {
            ("system", Variant::Str(text)) => system = Some(text.to_string()),
            ("system", value) => return Err(wrong(name, value, &"a text (s)")),
            _ => return Err(unknown(name, &"system")),
        }
    }
    Ok(system)
}

fn read(
    options: &Info,
    config: &BusConfig,
    mut other: impl FnMut(&str, &Variant<'_>) -> Result<(), Error>,
) -> Result<Options, Error> {
    let mut read = Options {
        max_tokens: config.max_tokens,
        sampling: config.sampling,
        stop: Vec::new(),
        thinking: config.thinking,
    };
    let Parameters {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        seed,
    } = &mut read.sampling;
    for (name, value) in options {
        let value: &Variant<'_> = value;
        match name.as_str() {
            "max_tokens" => read.max_tokens = integer(name, value, 1..=config.max_tokens_limit)?,
            "temperature" => *temperature = number(name, value, 0.0..=2.0)?,
            "top_k" => *top_k = integer(name, value, 0..=u32::MAX)?,
            "top_p" => *top_p = number(name, value, 0.0..=1.0)?,
            "min_p" => *min_p = number(name, value, 0.0..=1.0)?,
            "repetition_penalty" => *repetition_penalty = number(name, value, 0.1..=10.0)?,
            "seed" => *seed = integer(name, value, 0..=u64::MAX)?,
            "stop" => read.stop = stop_strings(name, value)?,
            "thinking" => match value {
                Variant::Bool(thinking) => read.thinking = Some(*thinking),
                _ => return Err(wrong(name, value, &"true or false (b)")),
            },
            _ => other(name, value)?,
        }
    }
    Ok(read)
}

/// Any integer type will do: languages differ in what they make of a plain number.
fn integer<T>(name: &str, value: &Variant<'_>, allowed: RangeInclusive<T>) -> Result<T, Error>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    let given = match *value {
        Variant::U8(n) => Some(i128::from(n)),
        Variant::I16(n) => Some(i128::from(n)),
        Variant::U16(n) => Some(i128::from(n)),
        Variant::I32(n) => Some(i128::from(n)),
        Variant::U32(n) => Some(i128::from(n)),
        Variant::I64(n) => Some(i128::from(n)),
        Variant::U64(n) => Some(i128::from(n)),
        _ => None,
    };
    given
        .and_then(|n| T::try_from(n).ok())
        .filter(|n| allowed.contains(n))
        .ok_or_else(|| {
            let (least, most) = allowed.into_inner();
            wrong(
                name,
                value,
                &format_args!("a whole number (u, i, t or x) from {least} to {most}"),
            )
        })
}

fn number(name: &str, value: &Variant<'_>, allowed: RangeInclusive<f32>) -> Result<f32, Error> {
    let (least, most) = (*allowed.start(), *allowed.end());
    match *value {
        Variant::F64(n) if (f64::from(least)..=f64::from(most)).contains(&n) => {
            #[allow(clippy::cast_possible_truncation)] // in range; the sampler computes in f32
            Ok((n as f32).clamp(least, most))
        }
        _ => Err(wrong(
            name,
            value,
            &format_args!("a number (d) from {least} to {most}"),
        )),
    }
}

fn stop_strings(name: &str, value: &Variant<'_>) -> Result<Vec<String>, Error> {
    let stop = match value {
        Variant::Str(text) => Some(vec![text.to_string()]),
        Variant::Array(texts) => texts
            .iter()
            .map(|text| match text {
                Variant::Str(text) => Some(text.to_string()),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    stop.filter(|stop| stop.len() <= STOP_STRINGS)
        .filter(|stop| stop.iter().all(|s| (1..=STOP_BYTES).contains(&s.len())))
        .ok_or_else(|| {
            wrong(
                name,
                value,
                &format_args!(
                    "up to {STOP_STRINGS} texts (s or as), none empty or longer than {STOP_BYTES} bytes"
                ),
            )
        })
}

fn unknown(name: &str, known: &dyn Display) -> Error {
    let name = shortened(name);
    Error::InvalidOption(format!("unknown option {name:?}; known are {known}"))
}

fn wrong(name: &str, value: &Variant<'_>, allowed: &dyn Display) -> Error {
    let kind = value.value_signature();
    let given = match value {
        Variant::Str(text) => format!("{:?} (s)", shortened(text)),
        Variant::Array(_) | Variant::Dict(_) | Variant::Structure(_) | Variant::Variant(_) => {
            format!("of type {kind}")
        }
        basic => format!("{basic} ({kind})"),
    };
    Error::InvalidOption(format!("option {name:?} is {given}; allowed is {allowed}"))
}

/// Errors quote what they refuse, but never megabytes of it.
fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
