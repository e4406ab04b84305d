//! The public JSON-Schema-Test-Suite: its valid instances are accepted token by token, its invalid ones are not, and a
//! model at a high temperature gives valid answers.

use std::path::Path;

use ganglion::guide::{Grammar, Grammars, Guide, Limits, Next, Thoughts};
use ganglion::model::language::Words;
use ganglion::model::{Checkpoint, Language};
use serde_json::{Map, Value};

use super::decimals::as_doubles;
use super::hot_answers;
use super::schemas::{Group, is_multiple, judge, suite};
use crate::support::{needs, tiny_gguf};
use crate::together::Engine;

const SMOLLM2: &str = "target/models/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The language of the real model. `needs::smollm2` checks that it is installed.
pub(super) fn smollm2() -> Language {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checkpoint = Checkpoint::open(&root.join(SMOLLM2)).expect("it is whole");
    let source = checkpoint.language_source().expect("it has one");
    Language::load(source).expect("it is known")
}

/// The results of the suite.
#[derive(Debug, Default)]
struct Count {
    schemas: usize,
    refused: usize,
    valid: usize,
    accepted: usize,
    invalid: usize,
    rejected: usize,
    /// Complete random answers.
    whole: usize,
    /// Schemas without any complete answer.
    without: Vec<String>,
}

/// Returns an answer of uniformly random allowed tokens, or `None` if it is long.
fn random(mut guide: Guide, words: &Words, random: &mut fastrand::Rng) -> Option<String> {
    let mut bytes = Vec::new();
    for _ in 0..200 {
        let token = match guide
            .follows()
            .unwrap_or_else(|why| panic!("{why}: {:?}", text(bytes.clone())))
        {
            Next::Allowed(mask) => {
                // End tokens are rare among thousands.
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
        guide.take(token);
    }
    None
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("whole characters")
}

/// Whether a text is a complete answer.
fn accepts(grammars: &Grammars, grammar: &Grammar, text: &str, words: &Words) -> bool {
    let fits = grammars.fits(grammar, Limits::USUAL, &words.encode(text));
    fits.expect("it is compiled") == (true, true)
}

/// Writes JSON in the form of answers, with the members in the schema's order.
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
    let language = smollm2();
    let words = language.words();
    let grammars = Grammars::new(words.clone());
    let mut count = Count::default();
    let mut chance = fastrand::Rng::with_seed(17);
    for group in suite() {
        let Group {
            description,
            schema,
            tests,
        } = &group;
        let grammar = Grammar::JsonSchema(schema.to_string());
        count.schemas += 1;
        let guide = || grammars.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
        if let Err(why) = grammars.check(0, &grammar, Limits::USUAL, || true) {
            count.refused += 1;
            println!("refused: {description}: {why}");
            continue;
        }
        let judge = judge(schema);
        let mut whole = 0;
        for tries in 0..2048 {
            if tries >= 32 && whole > 0 {
                break;
            }
            let answer = random(guide().expect("it is compiled"), &words, &mut chance);
            let Some(answer) = answer else {
                continue;
            };
            whole += 1;
            // Like a program, it uses only numbers that a double represents.
            let read = serde_json::from_str::<Value>(&answer);
            assert!(read.is_ok(), "{schema}: {answer}");
            if is_multiple(&answer, schema) {
                continue;
            }
            let judged = as_doubles(&answer, schema);
            let judged = judged.unwrap_or_else(|| panic!("{schema}: {answer}"));
            let json = serde_json::from_str(&judged).expect("JSON");
            assert!(judge.is_valid(&json), "{schema}: {answer}");
        }
        count.whole += whole;
        if whole == 0 {
            count.without.push(schema.to_string());
        }
        for test in tests {
            let text = written(&test["data"], schema);
            let accepted = accepts(&grammars, &grammar, &text, &words);
            if test["valid"] == true {
                count.valid += 1;
                count.accepted += usize::from(accepted);
            } else {
                count.invalid += 1;
                count.rejected += usize::from(!accepted);
                assert!(!accepted, "{description}: {schema} accepts {text}");
            }
        }
    }
    println!("{count:?}");
    assert!(count.schemas - count.refused >= 160, "{count:?}");
    assert!(count.whole > 2_000, "{count:?}");
    assert!(count.without.is_empty(), "{:#?}", count.without);
    // Not accepted: 1.0 for an integer, members in another order, and texts that do not match a named format.
    assert!(10 * count.accepted > 9 * count.valid, "{count:?}");
}

/// Runs more than 2,000 answers of a model with random weights in the engine, eight together, under each accepted
/// schema. `cargo run --release --example hot` uses a trained model.
#[tokio::test(flavor = "multi_thread")]
async fn answers_at_a_high_temperature_are_valid() {
    if !needs::schemas() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::with_context(folder.path(), 8, 8, 512).await;
    let suite = suite();
    let count = hot_answers::answer(&engine.handle, &suite, 13).await;
    println!("{count:#?}");
    assert_eq!(count.accepted + count.refused, suite.len());
    assert!(count.accepted >= 160 && count.valid > 2_000, "{count:#?}");
    assert!(count.invalid.is_empty(), "{:#?}", count.invalid);
    assert!(count.unjudged.is_empty(), "{:#?}", count.unjudged);
    assert!(count.without.is_empty(), "{:#?}", count.without);
}
