//! The measured constraints: a small schema, many tools, and a list of a robot's actions.

use ganglion::guide::Grammar;
use ganglion::model::language::Words;
use ganglion::tools::{Format, Tools, Writing};

/// The texts in the answers: one short text, for masks of all kinds, or texts that make every answer as long as
/// allowed, for speeds.
pub(crate) const TEXT: &str = r#"{"type": "string", "maxLength": 60}"#;
pub(crate) const TEXTS: &str =
    r#"{"type": "array", "minItems": 100, "items": {"type": "string", "maxLength": 60}}"#;
/// A text in which each character leads to lexer states that no earlier answer has reached.
const LONG: &str = r#"{"type": "string", "minLength": 2500}"#;
const TOOLS: usize = 260;
/// The case with the most forced tokens.
pub(crate) const BRIEF: &str = "260 tools, brief calls";

/// Returns the cases: a small schema, a list of actions as long as an answer may be, the same tools as JSON and as
/// calls in the format of Hermes and Qwen, calls without texts, and the small schema with a long text.
pub(crate) fn guided(words: &Words, texts: &str) -> [(&'static str, Grammar); 6] {
    let action = |text| {
        format!(
            r#"{{"type": "object", "properties": {{"action": {{"enum": ["go", "stop", "turn"]}}, "why": {text},
        "metres": {{"type": "number"}}}}, "required": ["action", "why", "metres"], "additionalProperties": false}}"#
        )
    };
    let actions = format!(
        r#"{{"type": "array", "minItems": 100, "items": {}}}"#,
        action(TEXT)
    );
    let tool = |at| {
        format!(
            r#"{{"type": "object", "properties": {{"name": {{"const": "tool_{at}_of_the_robot"}}, "arguments": {{"type": "object",
            "properties": {{"x{at}": {{"type": "number"}}, "note": {texts}}}, "required": ["x{at}", "note"],
            "additionalProperties": false}}}}, "required": ["name", "arguments"], "additionalProperties": false}}"#
        )
    };
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let function = |at| {
        format!(
            r#"{{"type": "function", "function": {{"name": "tool_{at}_of_the_robot", "parameters": {{"type": "object",
            "properties": {{"x{at}": {{"type": "number"}}, "note": {texts}}}, "required": ["x{at}", "note"]}}}}}}"#
        )
    };
    let brief = |at| {
        format!(
            r#"{{"type": "function", "function": {{"name": "tool_{at}_of_the_robot", "parameters": {{"type": "object",
            "properties": {{"distance_in_metres": {{"type": "integer", "minimum": 0, "maximum": 99}},
            "direction_of_travel": {{"enum": ["forwards", "backwards"]}}}}, "required": ["distance_in_metres", "direction_of_travel"]}}}}}}"#
        )
    };
    let offer = |functions: Vec<String>| {
        let offer = format!("[{}]", functions.join(", "));
        Tools::read(&offer, Some("required"), true).expect("they are tools")
    };
    let brief = offer((0..TOOLS).map(brief).collect());
    let offer = offer((0..TOOLS).map(function).collect());
    let hermes = include_str!("../../config/tools/hermes.toml");
    let hermes = Format::parse("hermes", hermes).expect("it is a format");
    let writing = Writing::new(hermes.into(), words.clone());
    let called = |offer| Grammar::Tools {
        lark: writing.grammar(offer),
        arguments: writing.arguments(offer),
        lenient: false,
        bytes: 0,
        trigger: writing.spelled_trigger().map(Box::from),
        syntax: writing.syntax().map(Box::new),
    };
    [
        ("a small schema", Grammar::JsonSchema(action(texts))),
        ("a list of actions", Grammar::JsonSchema(actions)),
        (
            "260 tools",
            Grammar::JsonSchema(format!(r#"{{"anyOf": [{}]}}"#, tools.join(", "))),
        ),
        ("260 tools, called", called(&offer)),
        (BRIEF, called(&brief)),
        ("a text of 2,500", Grammar::JsonSchema(action(LONG))),
    ]
}

/// Makes the same constraint as a grammar that is not compiled yet.
pub(crate) fn anew(grammar: &Grammar, time: usize) -> Grammar {
    let blanks = " ".repeat(time);
    match grammar {
        Grammar::JsonSchema(schema) => Grammar::JsonSchema(blanks + schema),
        Grammar::Tools {
            lark,
            arguments,
            lenient,
            bytes,
            trigger,
            syntax,
        } => Grammar::Tools {
            lark: format!("{lark}\n{blanks}"),
            arguments: arguments.clone(),
            lenient: *lenient,
            bytes: *bytes,
            trigger: trigger.clone(),
            syntax: syntax.clone(),
        },
        grammar => grammar.clone(),
    }
}
