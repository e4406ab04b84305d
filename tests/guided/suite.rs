//! The public JSON-Schema-Test-Suite: what it calls valid is accepted token by token, what it calls invalid is not.

use std::fs;
use std::path::Path;

use ganglion::guide::{Grammar, Grammars, Guide, Limits, Next};
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
            let guide = match grammars.guide(&grammar, Limits::USUAL, &[], false) {
                Ok(guide) => guide,
                Err(why) => {
                    count.refused += 1;
                    println!("refused: {}: {why}", group["description"]);
                    continue;
                }
            };
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
    // What is not accepted: 1.0 for an integer, members in another order, and what is no format of its name.
    assert!(10 * count.accepted > 9 * count.valid, "{count:?}");
}
