//! Requests of group members with schemas and grammars that take much time or memory to compile.
//!
//! Each request has another guide, so the daemon cannot refuse it as one that it has refused before.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ganglion::bus::proxy::Fields;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout_at};
use zbus::Variant;

use crate::Failed;
use crate::outcomes::{Outcome, Outcomes, generate, manager};

/// The parallel requests of an attacker.
const AT_ONCE: usize = 2;
/// Answers are short: these attacks do not aim at decoding.
const TOKENS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// The name of an option, and its text.
pub(crate) type Guide = (&'static str, String);

/// Makes the guide of the request of that number.
type Numbered = fn(usize) -> Guide;

/// The attacks, and the functions that make their guides.
const GUIDES: &[(&str, Numbered)] = &[
    ("patterns-all-of", patterns_all_of),
    ("patterns-lark", patterns_lark),
    ("pattern-properties", pattern_properties),
    ("multiple-of", multiple_of),
    ("long-pointers", long_pointers),
    ("json-in-a-string", json_in_a_string),
    ("large-schemas", large_schema),
];

pub(crate) fn list() {
    for (name, _) in GUIDES {
        println!("{name}");
    }
}

/// Sends at most `count` requests of that attack and prints their outcomes.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(name: &str, seconds: &str, count: &str) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let count = count.parse()?;
    let guide = GUIDES.iter().find(|(known, _)| *known == name);
    let (_, guide) = guide.ok_or_else(|| format!("no attack is named {name:?}"))?;
    let sent = join_all((0..AT_ONCE).map(|at| send(*guide, at, count, until)));
    let mut outcomes = Outcomes::default();
    for outcome in sent.await.into_iter().flatten() {
        outcomes.add(outcome);
    }
    print!("{outcomes}");
    Ok(())
}

/// Sends the guides with the number `first` and every `AT_ONCE`th after it.
async fn send(guide: Numbered, first: usize, count: usize, until: Instant) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for number in (first..count).step_by(AT_ONCE) {
        if Instant::now() >= until {
            break;
        }
        let outcome = match timeout_at(until.into(), ask(guide(number))).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::new("disconnected", &error.to_string()),
            Err(_) => Outcome::new("unanswered", ""),
        };
        outcomes.push(outcome);
        sleep(PAUSE).await;
    }
    outcomes
}

/// Sends one request with that guide on a new connection.
pub(crate) async fn ask((option, text): Guide) -> Result<Outcome, Failed> {
    let manager = manager().await?;
    let options = Fields::from([
        (option, Variant::from(text)),
        ("max_tokens", Variant::from(TOKENS)),
    ]);
    generate(&manager, "Say it.", options).await
}

fn schema(schema: &Value) -> Guide {
    ("json_schema", schema.to_string())
}

/// The product of the patterns has a state for each subset of them.
fn patterns_all_of(number: usize) -> Guide {
    let pattern = |at| json!({"pattern": format!("a.*b{number}x{at}.*c")});
    let patterns: Vec<_> = (0..28).map(pattern).collect();
    schema(&json!({"type": "string", "allOf": patterns}))
}

fn patterns_lark(number: usize) -> Guide {
    let pattern = |at| format!("/a.*b{number}x{at}.*c/");
    let patterns: Vec<_> = (0..28).map(pattern).collect();
    ("grammar", format!("start: T\nT: {}", patterns.join(" & ")))
}

fn pattern_properties(number: usize) -> Guide {
    let pattern = |at| (format!("^a.*b{number}x{at}$"), json!({"type": "integer"}));
    let patterns: serde_json::Map<_, _> = (0..400).map(pattern).collect();
    schema(&json!({"type": "object", "patternProperties": patterns, "additionalProperties": false}))
}

/// A state for each remainder.
fn multiple_of(number: usize) -> Guide {
    schema(&json!({"type": "integer", "multipleOf": 1_000_003 + 2 * number}))
}

/// Schemas with faults at deep places, whose pointers are long.
fn long_pointers(number: usize) -> Guide {
    const DEPTH: usize = 50;
    let name = format!("{number:04}").repeat(900);
    let wrong: serde_json::Map<_, _> = (0..2000)
        .map(|at| (format!("p{at}"), json!({"not": {}})))
        .collect();
    let mut nested = json!({"properties": wrong});
    for _ in 0..DEPTH {
        nested = json!({"properties": {&name: nested}});
    }
    schema(&nested)
}

/// A schema in a grammar that has the grammar's keyword in one of its texts, and more members than an object may have.
fn json_in_a_string(number: usize) -> Guide {
    let member = |at| (format!("m{number}x{at}"), json!({"type": "string"}));
    let members: serde_json::Map<_, _> = (0..3000).map(member).collect();
    let nested = json!({"title": "%json", "type": "object", "properties": members});
    ("grammar", format!("start: %json {nested}"))
}

/// A valid schema of 240 KB.
fn large_schema(number: usize) -> Guide {
    let property = |at| {
        let choice: Vec<_> = (0..8).map(|n| format!("v{number}x{at}x{n}")).collect();
        let value = json!({"type": "object", "properties": {
            "kind": {"enum": choice},
            "text": {"type": "string", "maxLength": 40, "pattern": format!("^[a-z]{{1,20}}{at}$")},
            "number": {"type": "number", "minimum": -90.5, "maximum": 180.25},
        }, "required": ["kind", "text", "number"], "additionalProperties": false});
        (format!("property{number}x{at}"), value)
    };
    let properties: serde_json::Map<_, _> = (0..700).map(property).collect();
    schema(
        &json!({"type": "object", "properties": properties, "additionalProperties": false,
        "required": [format!("property{number}x0")]}),
    )
}
