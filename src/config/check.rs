//! Checks the typed values: types, ranges, and defaults for missing keys.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::checked::Config;
use super::document::{Document, Typed};
use super::error::Fault;
use super::socket_users::SocketUsers;
use crate::choice::Choice;
use crate::guess::{MOST_GUESSES, Mode};
use crate::load::TowerFile;
use crate::sampler::Parameters;

/// Larger sizes are typing errors, because no board could hold them.
const MOST_TOKENS: usize = 1 << 20;
const MOST_SECONDS: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const MOST_MIB: u64 = 1 << 20;
/// Rows of one step.
const MOST_ROWS: usize = 8192;
/// An Orin turns itself off at about this temperature.
const MOST_CELSIUS: u32 = 105;
/// Pixels of an image: the most take a GiB as RGBA.
const MOST_PIXELS: RangeInclusive<u64> = 1024..=1 << 28;
/// The largest integer of TOML.
const MOST_SEED: u64 = i64::MAX as u64;
/// Longer spinning would cost the robot a processor core.
const MOST_SPIN_US: u64 = 1_000_000;

/// Checks keys of a document and puts their values into the configuration: `section.key: check(allowed)`. The name
/// stands for the key's place in the document and in the configuration, and for its name in errors. Where these differ,
/// `=> section.field` and `as "name"` give them.
macro_rules! keys {
    ($typed:ident, $config:ident: $(
        $key:ident $(.$part:ident)* $(=> $section:ident.$field:ident)? $(as $name:literal)?:
            $check:ident $(($allowed:expr))?;
    )*) => {$(
        let key = Key {
            name: keys!(@first $($name,)? concat!(stringify!($key) $(, ".", stringify!($part))*)),
            typed: &$typed.$key $(.$part)*,
        };
        let value = &mut keys!(@first $($config.$section.$field,)? $config.$key $(.$part)*);
        $check(key, value $(, $allowed)?)?;
    )*};
    (@first $first:expr $(, $_:expr)?) => { $first };
}

/// Checks a document. A relative path starts in `directory`.
pub(super) fn config(typed: &Document, directory: Option<&Path>) -> Result<Config, Fault> {
    let mut config = Config::default();
    keys! { typed, config:
        backend: choice;
        model.path: path(directory);
        model.vision: tower(directory);
        model.chat_template: path(directory);
        model.thinking: switch_or_unset;
        model.tool_formats: folder(directory);
        draft.model: path(directory);
        kv.element as "kv.type": choice;
        kv.key as "kv.type_k": choice_or_unset;
        kv.value as "kv.type_v": choice_or_unset;
        kv.context: whole(0..=MOST_TOKENS);
        kv.memory_mib: whole(0..=MOST_MIB);
        kv.reuse: choice;
        kv.slots: whole_or_unset(1..=64);
        kv.host_mib: whole_or_unset(0..=MOST_MIB);
        kv.disk_mib: whole(0..=MOST_MIB);
        kv.disk_writes_mib_per_day: whole_or_unset(0..=MOST_MIB);
        kv.spill_after_seconds => kv.spill_after: seconds(0.0..=MOST_SECONDS);
        kv.stop_seconds => kv.stop: seconds(0.0..=MOST_SECONDS);
        graph.mode: choice;
        graph.capture_sizes: wholes(1..=MOST_ROWS);
        graph.prompt_graphs: whole(1..=1024);
        graph.prompt_mib: whole(1..=MOST_MIB);
        graph.record_at_start: switch;
        graph.debug.verify_addresses: switch;
        graph.debug.refuse_launches: whole(0..=1000);
        memory.weights: choice;
        memory.kv: choice;
        memory.reserve_mib: whole(0..=MOST_MIB);
        memory.keep_free_mib: whole(0..=MOST_MIB);
        device.activations: choice;
        device.emulate_tegra: switch;
        cpu.threads: whole(0..=1024);
        cpu.activations: choice;
        engine.rows: whole(1..=8);
        engine.prefill_chunk: whole(0..=MOST_ROWS);
        engine.prefill_slice_ms => engine.prefill_slice: milliseconds(1..=10_000);
        engine.prefill_share: whole(1..=100);
        engine.spin_us => engine.spin: microseconds(0..=MOST_SPIN_US);
        engine.guess: choice;
        engine.guess_tokens: whole(1..=MOST_GUESSES);
        hold.max_seconds => hold.longest: seconds(0.1..=MOST_SECONDS);
        idle.unload_seconds => idle.unload: seconds(0.0..=DAY);
        heat.celsius: whole(0..=MOST_CELSIUS);
        heat.rows: whole_or_unset(1..=8);
        reload.drain_seconds => reload.drain: seconds(0.0..=MOST_SECONDS);
        queue.capacity: whole(1..=65_536);
        limits.requests: whole(1..=4096);
        limits.queue_percent_per_user: whole(1..=100);
        limits.kv_percent_per_user: whole(1..=100);
        limits.sessions: whole(1..=65_536);
        limits.max_tokens: whole(1..=MOST_TOKENS);
        limits.grammar_bytes: whole(1..=1 << 24);
        limits.grammar_work: whole(1..=1 << 24);
        limits.grammar_seconds => limits.grammar_time: seconds(0.01..=60.0);
        limits.mask_seconds => limits.mask_time: seconds(0.01..=60.0);
        limits.realtime_group: name;
        vision.max_pixels: whole(MOST_PIXELS);
        vision.max_tokens: whole(0..=65_536);
        vision.max_images: whole(1..=64);
        vision.cache_mib: whole(0..=MOST_MIB);
        sessions.directory: folder(directory);
        sessions.durability: choice;
        sessions.per_user: whole(1..=4096);
        sessions.mib_per_user: whole(1..=MOST_MIB);
        sampling.temperature: number_or_unset(Parameters::TEMPERATURE);
        sampling.top_k: whole_or_unset(0..=u32::MAX);
        sampling.top_p: number_or_unset(Parameters::TOP_P);
        sampling.min_p: number_or_unset(Parameters::MIN_P);
        sampling.repetition_penalty: number_or_unset(Parameters::REPETITION_PENALTY);
        sampling.from_model: switch;
        sampling.seed: whole_or_unset(0..=MOST_SEED);
        stream.stall_seconds => stream.stall: seconds(0.1..=MOST_SECONDS);
        http.key_file: path(directory);
        http.max_body_mib: whole(1..=1024);
        http.users: socket_users;
        stop.grace_seconds => stop.grace: seconds(0.0..=MOST_SECONDS);
        watchdog.stall_seconds => watchdog.stall: seconds(0.1..=MOST_SECONDS);
        log.level: choice;
    }
    config.kv.context_is_set = typed.kv.context.is_some();
    check_kv_types(&config, typed)?;
    check_draft(&config, typed)?;
    // Only typed values can contradict each other: a default is lowered to a typed limit.
    let (limits, sampling) = (&mut config.limits, &mut config.sampling);
    let (requests, sessions, tokens) = (limits.requests, limits.sessions, limits.max_tokens);
    limits.requests_per_user = limits.requests_per_user.min(requests);
    limits.sessions_per_user = limits.sessions_per_user.min(sessions);
    sampling.max_tokens = sampling.max_tokens.min(tokens);
    keys! { typed, config:
        limits.requests_per_user: whole(1..=requests);
        limits.sessions_per_user: whole(1..=sessions);
        sampling.max_tokens: whole(1..=tokens);
    }
    Ok(config)
}

/// Refuses types of keys and values that no cache has together.
fn check_kv_types(config: &Config, typed: &Document) -> Result<(), Fault> {
    config.kv.choices().check().map_err(|error| {
        let kv = [&typed.kv.value, &typed.kv.key, &typed.kv.element];
        let at = kv
            .into_iter()
            .find_map(|typed| Some(typed.as_ref()?.span().start));
        Fault {
            at: at.unwrap_or_default(),
            message: format!("kv.type, kv.type_k, kv.type_v: {error}"),
            quote: false,
        }
    })
}

/// Refuses to guess with a draft model that is not named.
fn check_draft(config: &Config, typed: &Document) -> Result<(), Fault> {
    if config.engine.guess != Mode::Draft || config.draft.model.is_some() {
        return Ok(());
    }
    let at = typed.engine.guess.as_ref().map(|typed| typed.span().start);
    Err(Fault {
        at: at.unwrap_or_default(),
        message: "engine.guess = \"draft\" needs a draft model: set draft.model to a smaller model of the same vocabulary or \
                  to the assistant of a Gemma 4, or engine.guess to another value"
            .to_owned(),
        quote: false,
    })
}

/// A key and its typed value.
struct Key<'a> {
    name: &'static str,
    typed: &'a Typed,
}

impl Key<'_> {
    /// Sets `value` to what `read` returns, or reports that the typed value is not as `allowed` says. A missing key
    /// leaves `value` as it is.
    fn put<T>(
        self,
        value: &mut T,
        allowed: impl Display,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<(), Fault> {
        let Some(typed) = self.typed else {
            return Ok(());
        };
        *value = read(typed.get_ref()).ok_or_else(|| Fault {
            at: typed.span().start,
            message: format!("{} = {}: it must be {allowed}", self.name, typed.get_ref()),
            quote: false,
        })?;
        Ok(())
    }
}

fn whole<T>(key: Key, value: &mut T, range: RangeInclusive<T>) -> Result<(), Fault>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    key.put(value, numbers("a whole number", &range), |typed| {
        within(typed, &range)
    })
}

/// Checks a whole number that may be unset.
fn whole_or_unset<T>(key: Key, value: &mut Option<T>, range: RangeInclusive<T>) -> Result<(), Fault>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    key.put(value, numbers("a whole number", &range), |typed| {
        within(typed, &range).map(Some)
    })
}

/// Checks a list of whole numbers.
fn wholes<T>(key: Key, value: &mut Vec<T>, range: RangeInclusive<T>) -> Result<(), Fault>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    key.put(value, numbers("a list of whole numbers", &range), |typed| {
        let numbers = typed.as_array()?.iter();
        numbers.map(|number| within(number, &range)).collect()
    })
}

fn microseconds(key: Key, value: &mut Duration, range: RangeInclusive<u64>) -> Result<(), Fault> {
    key.put(value, numbers("a whole number", &range), |typed| {
        within(typed, &range).map(Duration::from_micros)
    })
}

fn milliseconds(key: Key, value: &mut Duration, range: RangeInclusive<u64>) -> Result<(), Fault> {
    key.put(value, numbers("a whole number", &range), |typed| {
        within(typed, &range).map(Duration::from_millis)
    })
}

/// Checks a name that may be unset.
fn name(key: Key, value: &mut Option<String>) -> Result<(), Fault> {
    key.put(value, "the name of a group", |typed| {
        let name = typed.as_str().filter(|name| !name.is_empty())?;
        Some(Some(name.to_owned()))
    })
}

/// Checks a number that may be unset.
fn number_or_unset(
    key: Key,
    value: &mut Option<f32>,
    [least, most]: [f32; 2],
) -> Result<(), Fault> {
    let range = least..=most;
    key.put(value, numbers("a number", &range), |typed| {
        real(typed, &range).map(Some)
    })
}

fn seconds(key: Key, value: &mut Duration, range: RangeInclusive<f64>) -> Result<(), Fault> {
    key.put(value, numbers("a number", &range), |typed| {
        #[allow(clippy::cast_precision_loss)]
        let whole = typed.as_integer().map(|seconds| seconds as f64);
        let seconds = whole.or_else(|| typed.as_float())?;
        range
            .contains(&seconds)
            .then(|| Duration::from_secs_f64(seconds))
    })
}

fn choice<T: Choice>(key: Key, value: &mut T) -> Result<(), Fault> {
    let words: Vec<_> = T::ALL
        .iter()
        .map(|value| format!("{:?}", value.name()))
        .collect();
    let allowed = format!("one of {}", words.join(", "));
    key.put(value, allowed, |typed| T::named(typed.as_str()?))
}

/// Checks a choice that may be unset.
fn choice_or_unset<T: Choice>(key: Key, value: &mut Option<T>) -> Result<(), Fault> {
    if key.typed.is_none() {
        return Ok(());
    }
    let mut chosen = T::ALL[0];
    choice(key, &mut chosen)?;
    *value = Some(chosen);
    Ok(())
}

fn switch(key: Key, value: &mut bool) -> Result<(), Fault> {
    key.put(value, "true or false", Value::as_bool)
}

/// Checks a switch that may be unset.
fn switch_or_unset(key: Key, value: &mut Option<bool>) -> Result<(), Fault> {
    key.put(value, "true or false", |typed| typed.as_bool().map(Some))
}

fn path(key: Key, value: &mut Option<PathBuf>, from: Option<&Path>) -> Result<(), Fault> {
    key.put(value, "the path of a file or directory", |typed| {
        let path = typed.as_str().filter(|path| !path.is_empty())?;
        Some(Some(from.unwrap_or(Path::new("")).join(path)))
    })
}

fn tower(key: Key, value: &mut TowerFile, from: Option<&Path>) -> Result<(), Fault> {
    key.put(
        value,
        "the path of a file or directory, or \"none\"",
        |typed| {
            let path = typed.as_str().filter(|path| !path.is_empty())?;
            Some(match path {
                "none" => TowerFile::None,
                path => TowerFile::Named(from.unwrap_or(Path::new("")).join(path)),
            })
        },
    )
}

fn folder(key: Key, value: &mut PathBuf, from: Option<&Path>) -> Result<(), Fault> {
    key.put(value, "the path of a directory", |typed| {
        let path = typed.as_str().filter(|path| !path.is_empty())?;
        Some(from.unwrap_or(Path::new("")).join(path))
    })
}

fn socket_users(key: Key, value: &mut SocketUsers) -> Result<(), Fault> {
    let allowed = "a list of \"NAME=USER\": the name of a socket, and a user id";
    key.put(value, allowed, |typed| {
        SocketUsers::read(typed.as_array()?.iter().map(Value::as_str))
    })
}

fn numbers<T: Display>(what: &str, range: &RangeInclusive<T>) -> String {
    format!("{what} from {} to {}", range.start(), range.end())
}

fn within<T: TryFrom<i64> + PartialOrd>(typed: &Value, range: &RangeInclusive<T>) -> Option<T> {
    let value = T::try_from(typed.as_integer()?).ok()?;
    range.contains(&value).then_some(value)
}

/// Rounds to f32 before the comparison, so that 0.1 equals a bound of 0.1.
fn real(typed: &Value, range: &RangeInclusive<f32>) -> Option<f32> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    let value = match *typed {
        Value::Float(value) => value as f32,
        Value::Integer(value) => value as f32,
        _ => return None,
    };
    range.contains(&value).then_some(value)
}
