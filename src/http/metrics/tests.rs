//! `/metrics` as a scraper reads it: its format, and what the requests of an engine count.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::machine::Machine;
use super::page::page;
use super::table::{Kind, METRICS, Metric};
use super::text::Text;
use crate::board::tests::tree::{ORIN_NANO, tree};
use crate::board::{Cause, Rules, Sensors};
use crate::engine::sim::{self, Script};
use crate::engine::{
    Client, Event, FinishReason, Handle, Limits, Message, Options, Role, Share, UserLimits, channel,
};
use crate::front::Front;
use crate::http::shared::Shared;
use crate::sampler::Parameters;

/// A metric as it was read: its type, and its samples by name and labels.
#[derive(Debug, Default)]
struct Read {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Reads a text, and panics where it breaks a rule of the format.
fn read(text: &str) -> Vec<(String, Read)> {
    let mut metrics: Vec<(String, Read)> = Vec::new();
    let mut help = String::new();
    assert!(text.ends_with('\n'), "the last line is complete");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, what) = rest.split_once(' ').expect("a name and its meaning");
            assert!(!what.is_empty(), "{line}");
            help = name.to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and its type");
            assert_eq!(name, help, "the help of a metric comes before its type");
            assert!(
                metrics.iter().all(|(other, _)| other != name),
                "{name} comes twice"
            );
            let kind = kind.to_owned();
            let samples = BTreeMap::new();
            metrics.push((name.to_owned(), Read { kind, samples }));
            continue;
        }
        let (name, metric) = metrics.last_mut().expect("a type comes first");
        let (key, value) = line.rsplit_once(' ').expect("a value");
        let own = key.split('{').next().expect("a name");
        let suffixes: &[&str] = match &*metric.kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let is_own = suffixes
            .iter()
            .any(|suffix| own == format!("{name}{suffix}"));
        assert!(is_own, "{line} is below {name}");
        if let Some(labels) = key.strip_prefix(own).filter(|labels| !labels.is_empty()) {
            check_labels(labels);
        }
        let value = value.parse().expect("a number");
        let before = metric.samples.insert(key.to_owned(), value);
        assert_eq!(before, None, "{key} comes twice");
    }
    metrics
}

/// Checks `{name="value",...}`: each value ends at its first quote that is not escaped.
fn check_labels(labels: &str) {
    let inner = labels
        .strip_prefix('{')
        .and_then(|one| one.strip_suffix('}'));
    let mut rest = inner.expect("braces");
    loop {
        let (name, after) = rest.split_once("=\"").expect("a name");
        let is_name = name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        assert!(is_name && !name.is_empty(), "{labels}");
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("the value's end") {
                (_, '\\') => {
                    let (_, escaped) = chars.next().expect("an escaped character");
                    assert!("\\\"n".contains(escaped), "{labels}");
                }
                (at, '"') => break at,
                _ => {}
            }
        };
        match after[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return assert_eq!(&after[end + 1..], "", "{labels}"),
        }
    }
}

fn of<'a>(metrics: &'a [(String, Read)], name: &str) -> &'a Read {
    let metric = metrics.iter().find(|(one, _)| one == name);
    &metric.unwrap_or_else(|| panic!("no {name}")).1
}

fn value(metrics: &[(String, Read)], sample: &str) -> f64 {
    let name = sample.split('{').next().expect("a name");
    let found = metrics
        .iter()
        .filter(|(one, _)| name.starts_with(&**one))
        .find_map(|(_, metric)| metric.samples.get(sample));
    *found.unwrap_or_else(|| panic!("no {sample}"))
}

fn served(script: &Script) -> (Front, std::thread::JoinHandle<()>) {
    let (engine, receiver) = channel(Limits {
        prefill: Share::default(),
        grammar: crate::guide::Limits::USUAL,
        requests: 8,
        queue: 8,
        sessions: 8,
        user: UserLimits {
            requests: 2,
            sessions: 8,
            queue_percent: 100,
            kv_percent: 100,
        },
    });
    let script = script.clone();
    let runs = std::thread::spawn(move || sim::run(&receiver, &script));
    (Front::new(engine), runs)
}

fn client() -> Client {
    Client {
        name: ":1.1".into(),
        user: 1000,
    }
}

async fn answer(engine: &Handle, text: &str) -> crate::engine::Outcome {
    let messages = vec![Message::new(Role::User, text)];
    let options = Options::new(9, Parameters::default());
    let ticket = engine.generate(client(), messages, options).await;
    let mut events = ticket.expect("it is accepted").events;
    loop {
        if let Event::Done(outcome) = events.recv().await.expect("it ends") {
            return outcome;
        }
    }
}

fn number(n: u32) -> f64 {
    f64::from(n)
}

/// The figures are those of the answers' usages, and each request counts once.
#[tokio::test]
async fn requests_count_once_and_their_tokens_sum_up() {
    let (front, runs) = served(&Script {
        per_token: Duration::from_millis(2),
        ..Script::default()
    });
    let engine = front.engine();
    let mut usages = Vec::new();
    for text in ["one two three", "four", "five six"] {
        usages.push(answer(engine, text).await.usage);
    }
    let permits: Vec<_> = (0..2).map(|_| front.admit(&client())).collect();
    assert!(permits.iter().all(Result::is_ok));
    assert!(front.admit(&client()).is_err(), "the user has two already");

    let metrics = read(&page(&Shared::new(front.clone()), &Machine::default()));
    let sum = |of: fn(&crate::engine::Usage) -> u32| number(usages.iter().map(of).sum());
    let all: f64 = of(&metrics, "ganglion_requests_total")
        .samples
        .values()
        .sum();
    assert!((all - 3.0).abs() < 0.1, "{metrics:?}");
    let generated = sum(|usage| usage.completion_tokens);
    for (sample, expected) in [
        ("ganglion_requests_total{finish_reason=\"stop\"}", 3.0),
        (
            "ganglion_refusals_total{limit=\"limits.requests_per_user\"}",
            1.0,
        ),
        (
            "ganglion_prompt_tokens_total",
            sum(|usage| usage.prompt_tokens),
        ),
        ("ganglion_generated_tokens_total", generated),
        ("ganglion_queue_seconds_count", 3.0),
        ("ganglion_first_token_seconds_count", 3.0),
        ("ganglion_request_seconds_count", 3.0),
        ("ganglion_between_tokens_seconds_count", generated - 3.0),
        ("ganglion_decode_tokens_total", generated - 3.0),
        ("ganglion_requests_running{priority=\"normal\"}", 0.0),
        ("ganglion_state{state=\"ready\"}", 1.0),
        ("ganglion_state{state=\"loading\"}", 0.0),
        ("ganglion_loaded_ratio", 1.0),
    ] {
        let found = value(&metrics, sample);
        assert!((found - expected).abs() < 1e-9, "{sample} is {found}");
    }
    // The script waits before each token but the first.
    let waited = value(&metrics, "ganglion_between_tokens_seconds_sum");
    assert!(waited >= 0.002 * (generated - 3.0), "{waited}");
    let whole = value(&metrics, "ganglion_request_seconds_sum");
    assert!(whole >= waited, "{whole} {waited}");
    engine.close();
    runs.join().expect("it ends");
}

#[tokio::test]
async fn running_and_waiting_requests_are_those_of_this_moment() {
    let (front, runs) = served(&Script {
        first_token: Duration::from_secs(3600),
        ..Script::default()
    });
    let engine = front.engine();
    let mut status = engine.status();
    let ready = status.wait_for(|status| status.state == crate::engine::State::Ready);
    ready.await.expect("it loads");
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let messages = vec![Message::new(Role::User, "hello")];
        let options = Options::new(9, Parameters::default());
        tickets.push(engine.generate(client(), messages, options).await.unwrap());
    }
    let figures = || {
        let metrics = read(&page(&Shared::new(front.clone()), &Machine::default()));
        ["running", "waiting"].map(|what| {
            let sample = format!("ganglion_requests_{what}{{priority=\"normal\"}}");
            value(&metrics, &sample).to_string()
        })
    };
    let begun = async {
        while figures() != ["1", "2"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(60), begun).await;
    assert!(begun.is_ok(), "{:?}", figures());
    engine.cancel_all();
    engine.idle().await;
    let metrics = read(&page(&Shared::new(front.clone()), &Machine::default()));
    let cancelled = value(
        &metrics,
        "ganglion_requests_total{finish_reason=\"cancelled\"}",
    );
    assert!((cancelled - 3.0).abs() < 0.1, "{cancelled}");
    assert_eq!(figures(), ["0", "0"]);
    engine.close();
    runs.join().expect("it ends");
}

/// Whatever the page shows is in the table, which the manual has, and the other way round.
#[tokio::test]
async fn the_page_has_the_metrics_of_the_table() {
    let (front, runs) = served(&Script::default());
    let outcome = answer(front.engine(), "hello").await;
    assert_eq!(outcome.reason, FinishReason::Stop);
    let root = tree(ORIN_NANO);
    let board = Sensors::find(root.path()).read();
    let engine = front.engine();
    engine.board().energy.sample(Instant::now(), 9.0);
    let (celsius, rows) = (Some(80), 4);
    engine.board().set_rules(Rules { celsius, rows });
    engine.board().publish(vec![Cause::Heat], true);
    let machine = Machine {
        resident: Some(1 << 30),
        board: board.into(),
    };
    let shared = Shared::new(front.clone());
    shared.traffic.respond(StatusCode::OK);
    let metrics = read(&page(&shared, &machine));
    let read: Vec<_> = metrics
        .iter()
        .map(|(name, metric)| (&**name, &*metric.kind))
        .collect();
    let table: Vec<_> = METRICS
        .iter()
        .map(|one| (one.name, one.kind.name()))
        .collect();
    assert_eq!(read, table);
    for (name, metric) in &metrics {
        assert!(!metric.samples.is_empty(), "{name} has no value");
    }
    for (sample, expected) in [
        (
            "ganglion_temperature_celsius{zone=\"8\",type=\"tj-thermal\"}",
            52.25,
        ),
        ("ganglion_power_mode_info{id=\"0\",name=\"15W\"}", 1.0),
        ("ganglion_input_power_watts", 7.524),
        ("ganglion_rail_power_watts{rail=\"VDD_SOC\"}", 1.5024),
        ("ganglion_clock_hertz{clock=\"gpu\",kind=\"cap\"}", 612e6),
        (
            "ganglion_throttle_events_total{cause=\"peak_current\"}",
            27.0,
        ),
        ("ganglion_decoding_slowed{cause=\"heat\"}", 1.0),
        ("ganglion_decoding_slowed{cause=\"clock\"}", 0.0),
        ("ganglion_heat_row_limit", 4.0),
    ] {
        let found = value(&metrics, sample);
        assert!((found - expected).abs() < 1e-6, "{sample} is {found}");
    }
    front.engine().close();
    runs.join().expect("it ends");
}

#[test]
fn names_follow_the_conventions() {
    let mut seen = BTreeSet::new();
    for Metric {
        name,
        kind,
        labels,
        help,
    } in METRICS
    {
        assert!(seen.insert(name), "{name} is there twice");
        assert!(name.starts_with("ganglion_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert!(*kind != Kind::Histogram || name.ends_with("_seconds"));
        assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
        assert!(!labels.contains(&"le"), "{name}");
    }
}

#[test]
fn labels_are_escaped() {
    let metric = Metric {
        name: "ganglion_test",
        kind: Kind::Gauge,
        labels: &["a", "b"],
        help: "A backslash: \\.",
    };
    let mut text = Text::default();
    text.begin(&metric);
    text.sample(&metric, &["C:\\new \"x\",y=\"}", "two\nlines"], 1);
    let text = text.finish();
    assert_eq!(
        text,
        "# HELP ganglion_test A backslash: \\\\.\n# TYPE ganglion_test gauge\n\
         ganglion_test{a=\"C:\\\\new \\\"x\\\",y=\\\"}\",b=\"two\\nlines\"} 1\n"
    );
    read(&text);
}
