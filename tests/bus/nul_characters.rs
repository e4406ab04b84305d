//! The bus disconnects a sender whose string has the character U+0000: no answer has it, whatever the model generates.

use ganglion::bus::Error;

use super::fields;
use crate::support::restartable::Restartable;

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_has_the_nul_character() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 300\n").await;
    let mut replaced = 0;
    for seed in 0..8u64 {
        let options = fields([
            ("temperature", 2.into()),
            ("max_tokens", 250u32.into()),
            ("seed", seed.into()),
        ]);
        let (text, _) = client.manager.complete("hello", options).await.unwrap();
        assert!(!text.contains('\0'));
        replaced += text.matches('\u{FFFD}').count();
    }
    assert!(replaced > 0);
    let options = fields([
        ("regex", r"[\x00a]{30}".into()),
        ("max_tokens", 60u32.into()),
        ("temperature", 1.into()),
    ]);
    let (text, _) = client.manager.complete("hello", options).await.unwrap();
    assert_eq!(text, "a".repeat(30));
}

/// An error can quote a schema, which may spell the character.
#[tokio::test(flavor = "multi_thread")]
async fn no_error_quotes_the_nul_character() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 300\n").await;
    let mut refused = 0;
    for (option, value) in [
        ("json_schema", r#"{"\u0000": 1}"#),
        ("json_schema", r#"{"type": "\u0000"}"#),
        (
            "json_schema",
            r#"{"properties": {"\u0000": {"\u0000": {}, "not": {}}}}"#,
        ),
        ("json_schema", r##"{"$ref": "#/\u0000"}"##),
        ("json_schema", r#"{"pattern": "\u0000(", "type": "string"}"#),
        ("json_schema", r#"{"enum": ["\u0000"]}"#),
        ("json_schema", r#"{"format": "\u0000", "type": "string"}"#),
        (
            "json_schema",
            r#"{"required": ["\u0000"], "properties": {"\u0000": false}}"#,
        ),
        ("regex", r"\x00+"),
        ("grammar", "start: \"\\x00\""),
        (
            "tools",
            r#"[{"type": "function", "function": {"name": "\u0000"}}]"#,
        ),
        (
            "tools",
            r#"[{"type": "\u0000", "function": {"name": "go"}}]"#,
        ),
    ] {
        let options = fields([(option, value.into()), ("max_tokens", 8u32.into())]);
        if let Err(error) = client.manager.complete("hello", options).await {
            assert!(
                matches!(error, Error::InvalidOption(_)),
                "{value}: {error:?}"
            );
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused}");
    let call = [(
        "tool_calls",
        r#"[{"function": {"name": "\u0000", "arguments": 1}}]"#.into(),
    )];
    let messages = vec![("assistant", fields(call))];
    let refused = client.manager.generate(&messages, fields([])).await;
    assert!(refused.is_err());
    let options = fields([("max_tokens", 8u32.into())]);
    client.manager.complete("hello", options).await.unwrap();
}
