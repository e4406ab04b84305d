//! Excessive tools, whose arguments are between tags.

use ganglion::guide::Grammar;
use ganglion::tools::{Tools, Writing};

use super::{families, grammar, words};

/// Returns the grammar of calls of a tool, in a vocabulary without special tokens.
fn tool(parameters: &str) -> Grammar {
    let mut families = families().into_iter();
    let family = families.find(|family| family.format == "qwen3-xml" && family.tokens.is_empty());
    let family = family.expect("it is listed");
    let offer = format!(
        r#"[{{"type": "function", "function": {{"name": "go", "parameters": {parameters}}}}}]"#
    );
    let tools = Tools::read(&offer, Some("required"), true).expect("they are right");
    grammar(&Writing::new(family.format(), words(&family)), &tools, true)
}

fn argument(schema: &str) -> Grammar {
    tool(&format!(
        r#"{{"type": "object", "properties": {{"x": {schema}}}}}"#
    ))
}

pub(crate) fn excessive_tools() -> Vec<(&'static str, Grammar)> {
    let all = |n: usize, one: &dyn Fn(usize) -> String| {
        let all: Vec<_> = (0..n).map(one).collect();
        all.join(", ")
    };
    let same = all(200, &|_| r##"{"$ref": "#/$defs/a"}"##.into());
    let multiplying = format!(
        r##"{{"$defs": {{"a": {{"anyOf": [{same}]}}}}, "anyOf": [{same}], "properties": {{"x": {{"$ref": "#/$defs/a"}}}}}}"##
    );
    let doubled = all(60, &|at| {
        let next = at + 1;
        format!(
            r##""d{at}": {{"anyOf": [{{"items": {{"$ref": "#/$defs/d{next}"}}}}, {{"properties": {{"x": {{"$ref": "#/$defs/d{next}"}}}}}}]}}"##
        )
    });
    let doubling = format!(
        r##"{{"$defs": {{{doubled}, "d60": {{}}}}, "properties": {{"x": {{"$ref": "#/$defs/d0"}}}}}}"##
    );
    let members = all(2_000, &|at| format!(r#""p{at}": {{"type": "string"}}"#));
    let items = all(9_000, &|_| "{}".into());
    let pairs = all(24, &|at| {
        format!(r#"{{"anyOf": [{{"required": ["a{at}"]}}, {{"required": ["b{at}"]}}]}}"#)
    });
    vec![
        ("references that multiply in a tool", tool(&multiplying)),
        ("doubling definitions in a tool", tool(&doubling)),
        (
            "2,000 arguments",
            tool(&format!(r#"{{"properties": {{{members}}}}}"#)),
        ),
        (
            "an argument with 2,000 members",
            argument(&format!(r#"{{"properties": {{{members}}}}}"#)),
        ),
        (
            "an item for each in an argument",
            argument(&format!(
                r#"{{"prefixItems": [{items}], "minItems": 9000}}"#
            )),
        ),
        (
            "alternatives in conjunction in an argument",
            argument(&format!(r#"{{"allOf": [{pairs}]}}"#)),
        ),
        (
            "an argument of a million",
            argument(r#"{"type": "string", "minLength": 900000, "pattern": "a.*b"}"#),
        ),
        (
            "an array of a million in an argument",
            argument(
                r#"{"type": "array", "items": {"type": "array", "minItems": 900000}, "minItems": 900000}"#,
            ),
        ),
    ]
}
