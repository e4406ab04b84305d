//! Unenforceable keywords: a strict request is refused with the keyword's location, a lenient one is answered and lists
//! them.

use ganglion::guide::Grammar;

use super::{ask, options};
use crate::support::tiny_gguf;
use crate::together::Engine;

const SCHEMAS: &[(&str, &[&str])] = &[
    (
        r#"{"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "maxItems": 3}"#,
        &["/uniqueItems"],
    ),
    (
        r#"{"type": "string", "pattern": "^a(?!b)", "maxLength": 4}"#,
        &["/pattern"],
    ),
    (
        r#"{"type": "object", "properties": {"a": {"type": "robot"}, "b": {"contains": {}}}, "required": ["a"], "additionalProperties": false}"#,
        &["/properties/a/type", "/properties/b/contains"],
    ),
    (
        r#"{"type": "object", "patternProperties": {"^a": {"type": "null"}, "b$": {"type": "boolean"}}, "additionalProperties": false}"#,
        &["/additionalProperties", "/patternProperties"],
    ),
    (
        r#"{"name": "n", "strict": true, "schema": {"type": "integer", "multipleOf": 12345}}"#,
        &["/schema/multipleOf"],
    ),
    (
        r#"{"oneOf": [{"type": "object"}, {"type": "object", "required": ["b"]}]}"#,
        &["/oneOf"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn keywords_that_cannot_be_enforced_are_refused_or_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::start(folder.path(), 2, 2).await;
    for (schema, pointers) in SCHEMAS {
        let strict = options(Grammar::JsonSchema((*schema).into()), 1);
        let refused = ask(&engine.handle, 1, strict).await;
        let why = refused.expect_err("it is strict").to_string();
        assert!(why.contains("schema_lenient"), "{why}");
        assert!(
            pointers.iter().any(|pointer| why.contains(pointer)),
            "{schema}: {why}"
        );
        let lenient = options(Grammar::LenientSchema((*schema).into()), 1);
        let (_, outcome) = ask(&engine.handle, 1, lenient)
            .await
            .expect("it is lenient");
        let mut unchecked = outcome.unchecked;
        unchecked.sort();
        assert_eq!(unchecked, *pointers, "{schema}");
    }
}
