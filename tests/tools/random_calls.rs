//! Calls that a model chooses at random: they fit the schema, and public parsers read the same calls.

use ganglion::guide::{Grammar, Grammars, Limits, Next, Thoughts};
use ganglion::model::language::Words;
use ganglion::tools::{Tools, Writing};
use serde_json::{Value, json};

use super::{families, grammar, language, tokens, words};
use crate::support::needs;
use crate::text::python;

/// A tool with arguments of all types.
const RICH: &str = r##"[{"type": "function", "function": {"name": "say", "parameters": {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "short": {"type": "string", "minLength": 1, "maxLength": 3},
        "day": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]$"},
        "how": {"enum": ["fast", "slow \"and\" it's"]},
        "count": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": ["string", "boolean"]}, "maxItems": 2},
        "place": {"type": "object", "properties": {"x": {"type": "number"}, "name": {"type": "string"}}, "required": ["x"],
                  "additionalProperties": false},
        "tree": {"$ref": "#/$defs/tree"}
    },
    "required": ["text", "on", "list", "count"],
    "additionalProperties": false,
    "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}}
}}}]"##;

/// Texts that end a value in some format, so that random values end.
const ENDS: [&str; 5] = ["\n</parameter>\n", "<|\"|>", "'", "\"", "}"];

/// Writes a random answer that a grammar allows; `None` if it becomes too long.
fn random_answer(words: &Words, grammar: &Grammar, seed: u64) -> Option<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let grammars = Grammars::new(words.clone());
    let guide = grammars.guide(grammar, Limits::USUAL, &[], Thoughts::NONE);
    let mut guide = guide.expect("it is allowed");
    let (mut answer, mut planned) = (Vec::new(), Vec::new());
    while answer.len() < 1500 {
        let token = match guide.follows().expect("something follows") {
            Next::Nothing => return Some(answer),
            Next::Anything => panic!("it is guided"),
            Next::Forced(tokens) => tokens[0],
            Next::Allowed(mask) => {
                if planned.is_empty() && random.u8(..) < 100 {
                    let end = ENDS[random.usize(..ENDS.len())];
                    let parts = words.parts(end).into_iter().rev();
                    planned = parts
                        .flat_map(|part| tokens(words, part).into_iter().rev())
                        .collect();
                }
                let next = planned.pop().filter(|token| mask.allows(*token));
                if next.is_none() {
                    planned.clear();
                }
                let allowed: Vec<_> = (0..words.count())
                    .filter(|token| mask.allows(*token))
                    .collect();
                next.unwrap_or_else(|| allowed[random.usize(..allowed.len())])
            }
        };
        if words.ends().contains(&token) {
            return Some(answer);
        }
        guide.take(token);
        answer.push(token);
    }
    None
}

#[test]
fn random_calls_fit_and_are_read_alike() {
    let offered = Tools::read(RICH, Some("required"), false).expect("they are right");
    let declared: Value = serde_json::from_str(RICH).expect("JSON");
    let schema = &declared[0]["function"]["parameters"];
    let (mut jobs, mut expected) = (Vec::new(), Vec::new());
    for family in families() {
        let words = words(&family);
        let writing = Writing::new(family.format(), words.clone()).of(&offered);
        // The others write arguments as a JSON object.
        if writing.syntax().is_none() {
            continue;
        }
        let grammar = grammar(&writing, &offered, false);
        let language = language(&family);
        let mut ended = 0;
        for seed in 0..12 {
            let Some(answer) = random_answer(&words, &grammar, seed) else {
                continue;
            };
            ended += 1;
            let mut listener = writing.listener(1);
            let mut decoder = language.decoder();
            for token in &answer {
                listener.take(*token, &mut decoder);
            }
            let text = language.spelled(&answer);
            let [call] = listener.calls() else {
                panic!("{}: {text}", family.format);
            };
            let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
            assert!(
                jsonschema::is_valid(schema, &arguments),
                "{}: {text} as {arguments}",
                family.format
            );
            jobs.push(json!({"format": family.format, "text": text, "tools": declared, "difficult": true}));
            expected.push(json!([["say", rounded(arguments)]]));
        }
        assert!(ended > 5, "{}: {ended} calls", family.format);
    }
    if needs::parsers() {
        let read = python("calls.py", &jobs.clone().into());
        let read = read.as_array().expect("calls");
        for ((job, expected), read) in jobs.iter().zip(expected).zip(read) {
            assert_eq!(rounded(read["calls"].clone()), expected, "{job}");
        }
    }
}

/// Returns a value with all numbers as doubles: some parsers write 1 for 1.0.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().expect("a double")),
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(members) => {
            let each = members
                .into_iter()
                .map(|(name, value)| (name, rounded(value)));
            Value::Object(each.collect())
        }
        other => other,
    }
}
