//! What the typed values mean: types, ranges, and the defaults of what was not typed.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::choice::Choice;
use super::document::{Document, Typed};
use super::error::Fault;
use super::{
    Config, Cpu, Device, Engine, Graph, GraphDebug, Kv, Limits, Log, Memory, Model, Queue,
    Sampling, Stop, Stream, Watchdog,
};

/// Sizes above any that a board could hold are typing errors.
const MOST_TOKENS: usize = 1 << 20;
const MOST_SECONDS: f32 = 3600.0;
const MOST_MIB: u64 = 1 << 20;
/// Rows of one step.
const MOST_ROWS: usize = 8192;
/// A second of spinning is a core lost to the robot.
const MOST_SPIN_US: u64 = 1_000_000;

/// `directory` is where a relative path starts.
pub(super) fn config(typed: &Document, directory: Option<&Path>) -> Result<Config, Fault> {
    let default = Config::default();
    let limits = limits(typed, default.limits)?;
    Ok(Config {
        backend: choice("backend", &typed.backend)?.unwrap_or(default.backend),
        model: Model {
            path: path("model.path", &typed.model.path, directory)?,
            thinking: switch("model.thinking", &typed.model.thinking)?,
        },
        kv: kv(typed, default.kv)?,
        graph: graph(typed, default.graph)?,
        memory: memory(typed, default.memory)?,
        device: Device {
            activations: choice("device.activations", &typed.device.activations)?
                .unwrap_or(default.device.activations),
            emulate_tegra: switch("device.emulate_tegra", &typed.device.emulate_tegra)?
                .unwrap_or(default.device.emulate_tegra),
        },
        cpu: Cpu {
            threads: whole("cpu.threads", &typed.cpu.threads, 0..=1024)?
                .unwrap_or(default.cpu.threads),
        },
        engine: engine(typed, default.engine)?,
        queue: Queue {
            capacity: whole("queue.capacity", &typed.queue.capacity, 1..=65_536)?
                .unwrap_or(default.queue.capacity),
        },
        sampling: sampling(typed, default.sampling, &limits)?,
        limits,
        stream: Stream {
            stall: seconds(
                "stream.stall_seconds",
                &typed.stream.stall_seconds,
                0.1..=MOST_SECONDS,
            )?
            .unwrap_or(default.stream.stall),
        },
        stop: Stop {
            grace: seconds(
                "stop.grace_seconds",
                &typed.stop.grace_seconds,
                0.0..=MOST_SECONDS,
            )?
            .unwrap_or(default.stop.grace),
        },
        watchdog: Watchdog {
            stall: seconds(
                "watchdog.stall_seconds",
                &typed.watchdog.stall_seconds,
                0.1..=MOST_SECONDS,
            )?
            .unwrap_or(default.watchdog.stall),
        },
        log: Log {
            level: choice("log.level", &typed.log.level)?.unwrap_or(default.log.level),
        },
    })
}

fn kv(typed: &Document, default: Kv) -> Result<Kv, Fault> {
    let typed = &typed.kv;
    Ok(Kv {
        element: choice("kv.type", &typed.element)?.unwrap_or(default.element),
        context: whole("kv.context", &typed.context, 0..=MOST_TOKENS)?.unwrap_or(default.context),
        slots: whole("kv.slots", &typed.slots, 1..=64)?.unwrap_or(default.slots),
    })
}

fn graph(typed: &Document, default: Graph) -> Result<Graph, Fault> {
    let typed = &typed.graph;
    let (verify, refuse) = (&typed.debug.verify_addresses, &typed.debug.refuse_launches);
    Ok(Graph {
        mode: choice("graph.mode", &typed.mode)?.unwrap_or(default.mode),
        capture_sizes: wholes("graph.capture_sizes", &typed.capture_sizes, 1..=MOST_ROWS)?
            .unwrap_or(default.capture_sizes),
        prompt_graphs: whole("graph.prompt_graphs", &typed.prompt_graphs, 1..=1024)?
            .unwrap_or(default.prompt_graphs),
        prompt_mib: whole("graph.prompt_mib", &typed.prompt_mib, 1..=MOST_MIB)?
            .unwrap_or(default.prompt_mib),
        record_at_start: switch("graph.record_at_start", &typed.record_at_start)?
            .unwrap_or(default.record_at_start),
        debug: GraphDebug {
            verify_addresses: switch("graph.debug.verify_addresses", verify)?
                .unwrap_or(default.debug.verify_addresses),
            refuse_launches: whole("graph.debug.refuse_launches", refuse, 0..=1000)?
                .unwrap_or(default.debug.refuse_launches),
        },
    })
}

fn memory(typed: &Document, default: Memory) -> Result<Memory, Fault> {
    let typed = &typed.memory;
    Ok(Memory {
        weights: choice("memory.weights", &typed.weights)?.unwrap_or(default.weights),
        kv: choice("memory.kv", &typed.kv)?.unwrap_or(default.kv),
        reserve_mib: whole("memory.reserve_mib", &typed.reserve_mib, 0..=MOST_MIB)?
            .unwrap_or(default.reserve_mib),
    })
}

fn engine(typed: &Document, default: Engine) -> Result<Engine, Fault> {
    let typed = &typed.engine;
    Ok(Engine {
        prefill_chunk: whole("engine.prefill_chunk", &typed.prefill_chunk, 1..=MOST_ROWS)?
            .unwrap_or(default.prefill_chunk),
        spin: whole("engine.spin_us", &typed.spin_us, 0..=MOST_SPIN_US)?
            .map_or(default.spin, Duration::from_micros),
    })
}

fn limits(typed: &Document, default: Limits) -> Result<Limits, Fault> {
    let typed = &typed.limits;
    let requests = whole("limits.requests", &typed.requests, 1..=4096)?.unwrap_or(default.requests);
    let sessions =
        whole("limits.sessions", &typed.sessions, 1..=65_536)?.unwrap_or(default.sessions);
    Ok(Limits {
        requests,
        requests_per_user: whole(
            "limits.requests_per_user",
            &typed.requests_per_user,
            1..=requests,
        )?
        .unwrap_or(default.requests_per_user.min(requests)),
        queue_percent_per_user: whole(
            "limits.queue_percent_per_user",
            &typed.queue_percent_per_user,
            1..=100,
        )?
        .unwrap_or(default.queue_percent_per_user),
        sessions,
        sessions_per_user: whole(
            "limits.sessions_per_user",
            &typed.sessions_per_user,
            1..=sessions,
        )?
        .unwrap_or(default.sessions_per_user.min(sessions)),
        max_tokens: whole("limits.max_tokens", &typed.max_tokens, 1..=MOST_TOKENS)?
            .unwrap_or(default.max_tokens),
    })
}

fn sampling(typed: &Document, default: Sampling, limits: &Limits) -> Result<Sampling, Fault> {
    let typed = &typed.sampling;
    Ok(Sampling {
        temperature: number("sampling.temperature", &typed.temperature, 0.0..=2.0)?
            .unwrap_or(default.temperature),
        top_k: whole("sampling.top_k", &typed.top_k, 0..=u32::MAX)?.unwrap_or(default.top_k),
        top_p: number("sampling.top_p", &typed.top_p, 0.0..=1.0)?.unwrap_or(default.top_p),
        min_p: number("sampling.min_p", &typed.min_p, 0.0..=1.0)?.unwrap_or(default.min_p),
        repetition_penalty: number(
            "sampling.repetition_penalty",
            &typed.repetition_penalty,
            0.1..=10.0,
        )?
        .unwrap_or(default.repetition_penalty),
        max_tokens: whole(
            "sampling.max_tokens",
            &typed.max_tokens,
            1..=limits.max_tokens,
        )?
        .unwrap_or(default.max_tokens.min(limits.max_tokens)),
    })
}

/// Checks one key: `read` gives its value, or nothing if it is not as `allowed` says.
fn key<T>(
    name: &str,
    typed: &Typed,
    allowed: impl Display,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let Some(typed) = typed else { return Ok(None) };
    let value = typed.get_ref();
    read(value).map(Some).ok_or_else(|| Fault {
        at: typed.span().start,
        message: format!("{name} = {value}: it must be {allowed}"),
        quote: false,
    })
}

fn whole<T>(name: &str, typed: &Typed, range: RangeInclusive<T>) -> Result<Option<T>, Fault>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    let allowed = format!("a whole number from {} to {}", range.start(), range.end());
    key(name, typed, allowed, |value| within(value, &range))
}

/// A list of any length.
fn wholes<T>(name: &str, typed: &Typed, range: RangeInclusive<T>) -> Result<Option<Vec<T>>, Fault>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    let (least, most) = (range.start(), range.end());
    let allowed = format!("a list of whole numbers from {least} to {most}");
    key(name, typed, allowed, |value| {
        let values = value.as_array()?.iter();
        values.map(|value| within(value, &range)).collect()
    })
}

fn within<T: TryFrom<i64> + PartialOrd>(value: &Value, range: &RangeInclusive<T>) -> Option<T> {
    let value = T::try_from(value.as_integer()?).ok()?;
    range.contains(&value).then_some(value)
}

fn number(name: &str, typed: &Typed, range: RangeInclusive<f32>) -> Result<Option<f32>, Fault> {
    let allowed = format!("a number from {} to {}", range.start(), range.end());
    key(name, typed, allowed, |value| {
        // Rounded to f32 before it is compared: 0.1 is as allowed as it looks.
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let value = match *value {
            Value::Float(value) => value as f32,
            Value::Integer(value) => value as f32,
            _ => return None,
        };
        range.contains(&value).then_some(value)
    })
}

fn seconds(
    name: &str,
    typed: &Typed,
    range: RangeInclusive<f32>,
) -> Result<Option<Duration>, Fault> {
    Ok(number(name, typed, range)?.map(Duration::from_secs_f32))
}

fn choice<T: Choice>(name: &str, typed: &Typed) -> Result<Option<T>, Fault> {
    let words: Vec<_> = T::ALL
        .iter()
        .map(|one| format!("{:?}", one.name()))
        .collect();
    let allowed = format!("one of {}", words.join(", "));
    key(name, typed, allowed, |value| T::from_name(value.as_str()?))
}

fn switch(name: &str, typed: &Typed) -> Result<Option<bool>, Fault> {
    key(name, typed, "true or false", Value::as_bool)
}

fn path(name: &str, typed: &Typed, from: Option<&Path>) -> Result<Option<PathBuf>, Fault> {
    key(name, typed, "the path of a file or directory", |value| {
        let path = value.as_str().filter(|path| !path.is_empty())?;
        Some(from.unwrap_or(Path::new("")).join(path))
    })
}
