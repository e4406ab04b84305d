//! Random schemas and grammars of ten shapes, small and large, right and wrong. A seed determines them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use tokio::time::{sleep_until, timeout};

use crate::Failed;
use crate::guides::{Guide, ask};
use crate::outcomes::{Outcome, Outcomes};

/// The maximal number of parallel requests.
const AT_ONCE: usize = 4;
/// The timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a random guide of one shape.
type Random = fn(&mut Rng) -> Guide;

const SHAPES: [(&str, Random); 10] = [
    ("objects", objects),
    ("conjunctions", conjunctions),
    ("pattern-properties", pattern_properties),
    ("numbers", numbers),
    ("alternatives", alternatives),
    ("arrays", arrays),
    ("repeats", repeats),
    ("references", references),
    ("grammars", grammars),
    ("wrong", wrong),
];

/// Sends guides of each shape in turn, evenly over the time. Fails if a request does not end, or if a complete answer is not JSON.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(seed: &str, seconds: &str, count: &str) -> Result<(), Failed> {
    let mut rng = Rng::with_seed(seed.parse()?);
    let count: u32 = count.parse()?;
    let time = Duration::from_secs(seconds.parse()?);
    let pace = time / count.max(1);
    let begun = Instant::now();
    let mut outcomes: BTreeMap<&str, Outcomes> = BTreeMap::new();
    let mut running = FuturesUnordered::new();
    for number in 0..count {
        let (shape, guide) = SHAPES[number as usize % SHAPES.len()];
        if begun.elapsed() > time + PATIENCE {
            collect(&mut outcomes, Some((shape, Outcome::new("unsent", ""))));
            continue;
        }
        running.push(one(shape, guide(&mut rng)));
        while running.len() >= AT_ONCE {
            collect(&mut outcomes, running.next().await);
        }
        sleep_until((begun + pace * (number + 1)).into()).await;
    }
    while let Some(ended) = running.next().await {
        collect(&mut outcomes, Some(ended));
    }
    let (mut bad, mut whole) = (0, 0);
    let counted = |outcomes: &Outcomes, names: &[&str]| -> usize {
        names.iter().map(|name| outcomes.count(name)).sum()
    };
    for (shape, outcomes) in &outcomes {
        println!("  {shape}:");
        outcomes
            .to_string()
            .lines()
            .for_each(|line| println!("    {line}"));
        bad += counted(outcomes, &BAD);
        whole += counted(outcomes, &["stop", "length"]);
    }
    println!("{count} schemas of seed {seed}: {whole} answered, {bad} ended badly");
    if bad > 0 {
        return Err(format!("{bad} of {count} requests ended badly").into());
    }
    Ok(())
}

/// Outcomes that no schema may cause.
const BAD: [&str; 5] = ["unanswered", "unsent", "disconnected", "lost", "not JSON"];

fn collect<'a>(outcomes: &mut BTreeMap<&'a str, Outcomes>, ended: Option<(&'a str, Outcome)>) {
    if let Some((shape, outcome)) = ended {
        outcomes.entry(shape).or_default().add(outcome);
    }
}

async fn one(shape: &'static str, guide: Guide) -> (&'static str, Outcome) {
    let json = guide.0 == "json_schema";
    let outcome = match timeout(PATIENCE, ask(guide)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::new("disconnected", &error.to_string()),
        Err(_) => Outcome::new("unanswered", ""),
    };
    let is_json = || serde_json::from_str::<Value>(&outcome.text).is_ok();
    if json && outcome.name == "stop" && !is_json() {
        return (shape, Outcome::new("not JSON", &outcome.text));
    }
    (shape, outcome)
}

/// Returns a size up to `most`. Small ones are as frequent as large ones.
fn size(rng: &mut Rng, most: u32) -> usize {
    let exponent = rng.f64() * f64::from(most).ln();
    // Between 1 and the original number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let size = exponent.exp() as usize;
    size.max(1)
}

fn word(rng: &mut Rng) -> String {
    let length = size(rng, 12);
    (0..length).map(|_| rng.lowercase()).collect()
}

/// Returns a regular expression of a few parts, some of which match every text.
fn pattern(rng: &mut Rng) -> String {
    let parts = size(rng, 6);
    let part = |rng: &mut Rng| match rng.u8(..6) {
        0 => ".*".to_owned(),
        1 => format!("[a-{}]{{0,{}}}", rng.lowercase(), size(rng, 60)),
        2 => format!("({}|{})*", word(rng), word(rng)),
        3 => format!("{}?", rng.lowercase()),
        4 => r"\d+".to_owned(),
        _ => word(rng),
    };
    (0..parts).map(|_| part(rng)).collect()
}

/// A schema of one value.
fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 6 } else { 8 }) {
        0 => json!({"type": "string", "maxLength": size(rng, 2000)}),
        1 => json!({"type": "string", "pattern": pattern(rng)}),
        2 => {
            json!({"type": "integer", "minimum": -rng.i64(0..1 << 40), "maximum": rng.i64(0..1 << 40)})
        }
        3 => json!({"enum": (0..size(rng, 100)).map(|_| word(rng)).collect::<Vec<_>>()}),
        4 => json!({"type": "boolean"}),
        5 => {
            let format = rng.choice(["date-time", "email", "uuid", "ipv6", "uri"]);
            json!({"type": "string", "format": format})
        }
        6 => object(rng, 6, depth - 1),
        _ => {
            let items = value(rng, depth - 1);
            json!({"type": "array", "items": items, "maxItems": size(rng, 50)})
        }
    }
}

fn object(rng: &mut Rng, most: u32, depth: usize) -> Value {
    let properties: Map<_, _> = (0..size(rng, most))
        .map(|_| (word(rng), value(rng, depth)))
        .collect();
    let names = properties.keys().filter(|_| rng.bool());
    let required: Vec<_> = names.cloned().collect();
    json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": rng.bool()})
}

fn schema(schema: &Value) -> Guide {
    ("json_schema", schema.to_string())
}

fn objects(rng: &mut Rng) -> Guide {
    schema(&object(rng, 400, 4))
}

/// Several patterns that one text must match.
fn conjunctions(rng: &mut Rng) -> Guide {
    let all: Vec<_> = (0..size(rng, 30))
        .map(|_| json!({"pattern": pattern(rng)}))
        .collect();
    schema(&json!({"type": "string", "allOf": all}))
}

fn pattern_properties(rng: &mut Rng) -> Guide {
    // Half of these schemas have disjoint patterns. The daemon refuses the others.
    let apart = rng.bool();
    let name = |rng: &mut Rng, at| {
        let begin = if apart {
            format!("p{at}_")
        } else {
            String::new()
        };
        format!("^{begin}{}$", pattern(rng))
    };
    let properties: Map<_, _> = (0..size(rng, 400))
        .map(|at| (name(rng, at), value(rng, 1)))
        .collect();
    schema(
        &json!({"type": "object", "patternProperties": properties, "additionalProperties": false}),
    )
}

fn numbers(rng: &mut Rng) -> Guide {
    let (kind, of) = if rng.bool() {
        ("integer", json!(size(rng, 2_000_000)))
    } else {
        ("number", json!(f64::from(rng.u32(1..100_000)) / 1000.0))
    };
    let mut number = json!({"type": kind, "multipleOf": of});
    if rng.bool() {
        number["minimum"] = json!(-1e9 * rng.f64());
        number["exclusiveMaximum"] = json!(1e15 * rng.f64());
    }
    schema(&json!({"type": "array", "items": number, "minItems": 1, "maxItems": size(rng, 20)}))
}

fn alternatives(rng: &mut Rng) -> Guide {
    let keyword = rng.choice(["anyOf", "oneOf", "allOf"]).unwrap_or("anyOf");
    let branches: Vec<_> = (0..size(rng, 200)).map(|_| value(rng, 2)).collect();
    let mut outer = json!({});
    outer[keyword] = json!(branches);
    schema(&outer)
}

fn arrays(rng: &mut Rng) -> Guide {
    let mut inner = value(rng, 2);
    for _ in 0..size(rng, 12) {
        let least = size(rng, 2000);
        inner = json!({"type": "array", "items": inner, "minItems": least, "maxItems": least + size(rng, 2000)});
    }
    schema(&inner)
}

fn repeats(rng: &mut Rng) -> Guide {
    let (inner, outer) = (size(rng, 3000), size(rng, 3000));
    (
        "regex",
        format!(
            "(({}){{1,{inner}}}{}){{0,{outer}}}",
            pattern(rng),
            word(rng)
        ),
    )
}

/// Definitions that refer to each other, in rings too.
fn references(rng: &mut Rng) -> Guide {
    let count = size(rng, 200);
    let definition = |rng: &mut Rng, at: usize| {
        let to = |rng: &mut Rng| json!({"$ref": format!("#/$defs/d{}", rng.usize(..count))});
        let (left, right) = (to(rng), to(rng));
        let value = if rng.bool() {
            json!({"anyOf": [{"type": "null"}, {"type": "array", "items": left}, right]})
        } else {
            json!({"type": "object", "properties": {"left": left, "right": right}})
        };
        (format!("d{at}"), value)
    };
    let definitions: Map<_, _> = (0..count).map(|at| definition(rng, at)).collect();
    schema(&json!({"$defs": definitions, "$ref": "#/$defs/d0"}))
}

fn grammars(rng: &mut Rng) -> Guide {
    let (rules, joined) = (size(rng, 40), size(rng, 20));
    let patterns: Vec<_> = (0..joined).map(|_| format!("/{}/", pattern(rng))).collect();
    let mut lines = vec![
        "start: r0".to_owned(),
        format!("T: {}", patterns.join(" & ")),
    ];
    for at in 0..rules {
        let next = |rng: &mut Rng| format!("r{}", rng.usize(..rules));
        let rule = match rng.u8(..4) {
            0 => format!("T {} | \"{}\"", next(rng), word(rng)),
            1 => format!("({} \",\"){{1,{}}} | T", next(rng), size(rng, 500)),
            2 => format!("%json {}", value(rng, 2)),
            _ => format!("\"{}\" | {} {}", word(rng), next(rng), next(rng)),
        };
        lines.push(format!("r{at}: {rule}"));
    }
    ("grammar", lines.join("\n"))
}

/// Unsupported or wrong keywords, deeply nested below long names.
fn wrong(rng: &mut Rng) -> Guide {
    let keyword = rng.choice([
        "not",
        "contains",
        "uniqueItems",
        "if",
        "minimum",
        "type",
        "$ref",
    ]);
    let mut leaf = json!({});
    leaf[keyword.unwrap_or("not")] = json!({"x": "y"});
    let leaves: Map<_, _> = (0..size(rng, 2000))
        .map(|at| (format!("{}{at}", word(rng)), leaf.clone()))
        .collect();
    let mut nested = json!({"properties": leaves});
    let name = word(rng).repeat(size(rng, 100));
    for _ in 0..size(rng, 60) {
        nested = json!({"properties": {&name: nested}});
    }
    schema(&nested)
}
