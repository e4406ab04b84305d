//! Numbers in JSON answers end, and a double represents them; texts are free.

use ganglion::guide::{Grammar, Grammars, Limits, Next, Thoughts};

use super::suite::smollm2;
use crate::support::needs;

fn schema(text: &str) -> Grammar {
    Grammar::JsonSchema(text.into())
}

fn calls(lark: &str) -> Grammar {
    Grammar::Tools {
        lark: lark.into(),
        arguments: Vec::new(),
        lenient: false,
        bytes: 0,
        trigger: Some("<call>".into()),
        syntax: None,
    }
}

#[test]
fn a_double_represents_every_number() {
    if !needs::smollm2() {
        return;
    }
    let language = smollm2();
    let words = language.words();
    let grammars = Grammars::new(words.clone());
    let (long, great) = ("9".repeat(308), format!("1{}", "0".repeat(308)));
    let any = || schema("{}");
    let number = || schema(r#"{"type": "number"}"#);
    let cases = [
        (number(), "1e30", "8", true),
        (number(), "1e30", "9", false),
        (number(), "-1.7E+30", "8", true),
        (number(), "-1.8E+30", "8", false),
        (number(), "1e-30", "8", true),
        (number(), "1e-30", "9", false),
        (number(), "0.1234567890123456", "7", true),
        (number(), "0.12345678901234567", "8", false),
        (number(), "0.00000000000000000", "0", false),
        (any(), "[1, {\"a\": 2e30", "8", false),
        (any(), "[\"1e30", "9", true),
        (any(), "[\"\\\"1e30", "9", true),
        (any(), "[\"\\\\\", 1e30", "9", false),
        (schema(r#"{"type": "integer"}"#), &long[..16], "9", true),
        (schema(r#"{"type": "integer"}"#), &long[..17], "9", false),
        // A longer number is required.
        (
            schema(r#"{"type": "integer", "minimum": 100000000000000000}"#),
            &long[..17],
            "9",
            true,
        ),
        // A number of the schema stays allowed.
        (schema(r#"{"const": 1e308}"#), &great[..308], "0", true),
        (
            calls(r#"start: "{" %json {"type": "number"} "}""#),
            "{1e30",
            "9",
            false,
        ),
        (calls("start: /.*/"), "go 1e30", "9", true),
        (calls("start: /.*/"), "go 1e30<call>{1e30", "9", false),
        (calls("start: /.*/"), "go <call", "9", true),
        (Grammar::Lark("start: /[0-9e]+/".into()), "1e30", "9", true),
    ];
    for (grammar, said, next, allowed) in cases {
        let guide = grammars.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
        let mut guide = guide.expect("it is a grammar");
        let case = format!("{grammar:?}: {said}{next}");
        for token in words.encode(said) {
            guide.follows().expect(&case);
            guide.take(token);
        }
        let [next] = words.encode(next)[..] else {
            panic!("{case}: it is a token");
        };
        let may = match guide.follows().expect(&case) {
            Next::Allowed(mask) => mask.allows(next),
            Next::Forced(tokens) => tokens[0] == next,
            Next::Anything | Next::Nothing => false,
        };
        assert_eq!(may, allowed, "{case}");
    }
}
