//! The public JSON-Schema-Test-Suite: what it calls valid is accepted token by token, what it calls invalid is not.

use std::fs;
use std::path::Path;

use ganglion::guide::{Grammar, Grammars, Guide, Limits, Next, Thoughts};
use ganglion::model::language::Words;
use ganglion::model::{Checkpoint, Language};
use serde_json::{Map, Value};

use crate::support::needs;

const SMOLLM2: &str = "target/models/SmolLM2-135M-Instruct.Q4_1.gguf";
const SUITE: &str = "target/schemas/draft2020-12";

/// What became of the suite.
#[derive(Debug, Default)]
struct Count {
    schemas: usize,
    refused: usize,
    valid: usize,
    accepted: usize,
    invalid: usize,
    rejected: usize,
    /// Random answers that came to their end.
    whole: usize,
    /// Schemas without any.
    without: Vec<String>,
}

/// An answer for which of all that may come next anything comes next: hotter than any model. `None` if it is long.
fn random(mut guide: Guide, words: &Words, random: &mut fastrand::Rng) -> Option<String> {
    let mut bytes = Vec::new();
    for _ in 0..200 {
        let token = match guide.follows().expect("it goes on") {
            Next::Allowed(mask) => {
                // Ends are one of thousands.
                let end = words.ends().iter().find(|end| mask.allows(**end));
                let begin = random.u32(0..words.count());
                let mut all = (begin..words.count()).chain(0..begin);
                end.copied()
                    .or_else(|| all.find(|token| mask.allows(*token)))
                    .expect("something may come next")
            }
            Next::Forced(tokens) => tokens[0],
            Next::Anything | Next::Nothing => return Some(text(bytes)),
        };
        if words.ends().contains(&token) {
            return Some(text(bytes));
        }
        bytes.extend_from_slice(words.bytes(token));
        guide.take(token).expect("it was allowed");
    }
    None
}

/// Whether who judges it, by doubles, takes its numbers for what they are.
fn is_exact(answer: &str) -> bool {
    let mut numbers = answer.split(|c: char| !(c.is_ascii_digit() || ".eE+-".contains(c)));
    numbers.all(|number| number.len() <= 15 && (number.len() < 2 || !number.contains(['e', 'E'])))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("whole characters")
}

/// Whether a text is a whole answer.
fn accepts(mut guide: Guide, words: &Words, text: &str) -> bool {
    let tokens = words.encode(text);
    if !tokens.iter().all(|token| guide.take(*token).is_ok()) {
        return false;
    }
    match guide.follows() {
        Ok(Next::Nothing) => true,
        Ok(Next::Allowed(mask)) => words.ends().iter().any(|end| mask.allows(*end)),
        _ => false,
    }
}

/// JSON as answers are written, with the members that a schema names in its order.
fn written(json: &Value, schema: &Value) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match json {
        Value::Object(members) => {
            let empty = Map::new();
            let named = schema["properties"].as_object().unwrap_or(&empty);
            let first = named.keys().filter(|key| members.contains_key(*key));
            let others = members.keys().filter(|key| !named.contains_key(*key));
            let member = |key: &String| {
                let (name, value) = (Value::from(key.as_str()), &members[key]);
                format!("{name}: {}", written(value, &schema["properties"][key]))
            };
            format!("{{{}}}", join(first.chain(others).map(member).collect()))
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| written(item, &schema["items"]));
            format!("[{}]", join(items.collect()))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_public_suite_is_accepted_and_rejected() {
    if !needs::smollm2() || !needs::schemas() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checkpoint = Checkpoint::open(&root.join(SMOLLM2)).expect("it is whole");
    let source = checkpoint.language_source().expect("it has one");
    let language = Language::load(source).expect("it is known");
    let words = language.words();
    let grammars = Grammars::new(words.clone());
    let mut count = Count::default();
    let mut chance = fastrand::Rng::with_seed(17);
    let mut files: Vec<_> = fs::read_dir(root.join(SUITE))
        .expect("it was fetched")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    files.sort();
    assert!(files.len() > 30);
    for file in files {
        let text = fs::read_to_string(&file).expect("it is read");
        let groups: Value = serde_json::from_str(&text).expect("it is JSON");
        for group in groups.as_array().expect("groups") {
            let schema = &group["schema"];
            let grammar = Grammar::JsonSchema(schema.to_string());
            count.schemas += 1;
            let guide = match grammars.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE) {
                Ok(guide) => guide,
                Err(why) => {
                    count.refused += 1;
                    println!("refused: {}: {why}", group["description"]);
                    continue;
                }
            };
            let judge = jsonschema::validator_for(schema).expect("it is a schema");
            let mut whole = 0;
            for tries in 0..2048 {
                if tries >= 32 && whole > 0 {
                    break;
                }
                let answer = random(guide.clone(), &words, &mut chance);
                let is_const = |answer: &str| {
                    let only = schema.get("const").map(Value::to_string);
                    only.as_deref() == Some(answer)
                };
                let judged = answer.filter(|answer| is_exact(answer) || is_const(answer));
                if let Some(answer) = judged {
                    let json = serde_json::from_str(&answer).expect("JSON");
                    assert!(judge.is_valid(&json), "{schema}: {answer}");
                    whole += 1;
                }
            }
            count.whole += whole;
            if whole == 0 {
                count.without.push(schema.to_string());
            }
            for test in group["tests"].as_array().expect("tests") {
                let text = written(&test["data"], schema);
                let accepted = accepts(guide.clone(), &words, &text);
                if test["valid"] == true {
                    count.valid += 1;
                    count.accepted += usize::from(accepted);
                } else {
                    count.invalid += 1;
                    count.rejected += usize::from(!accepted);
                    assert!(
                        !accepted,
                        "{}: {}: {schema} accepts {text}",
                        file.display(),
                        group["description"]
                    );
                }
            }
        }
    }
    println!("{count:?}");
    assert!(count.schemas - count.refused >= 160, "{count:?}");
    assert!(count.whole > 2_000, "{count:?}");
    assert!(count.without.is_empty(), "{:#?}", count.without);
    // What is not accepted: 1.0 for an integer, members in another order, and what is no format of its name.
    assert!(10 * count.accepted > 9 * count.valid, "{count:?}");
}
