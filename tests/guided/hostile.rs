//! Grammars that want too much: an error of their option, within bounded time and memory, and the process lives.

use std::time::{Duration, Instant};

use ganglion::guide::{Grammar, Grammars, Guide, Limits, Next, Thoughts};
use ganglion::model::{Checkpoint, Language};

use super::{ask, options};
use crate::support::tiny_gguf;
use crate::together::Engine;

pub(crate) fn hostile() -> Vec<(&'static str, Grammar)> {
    let nested = |open: &str, close: &str, n: usize| open.repeat(n) + &close.repeat(n);
    let deep = |n: usize| format!("{}{{}}{}", r#"{"items": "#.repeat(n), "}".repeat(n));
    let wide = |n: usize| {
        let property = |at| format!(r#""p{at}": {{"type": "string"}}"#);
        let all: Vec<_> = (0..n).map(property).collect();
        format!(
            r#"{{"type": "object", "properties": {{{}}}}}"#,
            all.join(", ")
        )
    };
    let doubling = |n: usize| {
        let def = |at: usize| {
            let next = at + 1;
            format!(
                r##""d{at}": {{"anyOf": [{{"items": {{"$ref": "#/$defs/d{next}"}}}}, {{"properties": {{"x": {{"$ref": "#/$defs/d{next}"}}}}}}]}}"##
            )
        };
        let all: Vec<_> = (0..n).map(def).collect();
        format!(
            r##"{{"$defs": {{{}, "d{n}": {{}}}}, "$ref": "#/$defs/d0"}}"##,
            all.join(", ")
        )
    };
    let chain = |n: usize| {
        let def = |at: usize| format!(r##""{at}": {{"$ref": "#/$defs/{}"}}"##, at + 1);
        let all: Vec<_> = (0..n).map(def).collect();
        format!(
            r##"{{"$defs": {{{}, "{n}": {{}}}}, "$ref": "#/$defs/0"}}"##,
            all.join(", ")
        )
    };
    let all_of = |n: usize| {
        let one =
            |at| format!(r#"{{"anyOf": [{{"required": ["a{at}"]}}, {{"required": ["b{at}"]}}]}}"#);
        let all: Vec<_> = (0..n).map(one).collect();
        format!(r#"{{"allOf": [{}]}}"#, all.join(", "))
    };
    let doubling_rules = |n: usize| {
        let rule = |at| format!("r{at}: r{next} r{next}", next = at + 1);
        let all: Vec<_> = (0..n).map(rule).collect();
        format!("{}\nr{n}: \"a\"\nstart: r0", all.join("\n"))
    };
    vec![
        ("JSON 100 deep", Grammar::JsonSchema(deep(100))),
        ("JSON 20,000 deep", Grammar::JsonSchema(deep(20_000))),
        ("a reference to itself", Grammar::JsonSchema(r##"{"$ref": "#"}"##.into())),
        ("references in a ring", Grammar::JsonSchema(r##"{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}"##.into())),
        ("10,000 properties", Grammar::JsonSchema(wide(10_000))),
        ("2,000 properties", Grammar::JsonSchema(wide(2_000))),
        ("10,000 properties in a grammar", Grammar::Lark(format!("start: %json {}", wide(10_000)))),
        ("2,000 references in a row", Grammar::JsonSchema(chain(2_000))),
        ("an item for each", Grammar::JsonSchema(format!(r#"{{"prefixItems": [{}{{}}], "minItems": 9000}}"#, "{}, ".repeat(9_000)))),
        ("doubling definitions", Grammar::JsonSchema(doubling(60))),
        ("alternatives in conjunction", Grammar::JsonSchema(all_of(24))),
        ("a pattern that explodes", Grammar::JsonSchema(r#"{"type": "string", "pattern": "^((a|aa)*b){200}(.*x.{300}){40}$"}"#.into())),
        ("an array of a million", Grammar::JsonSchema(r#"{"type": "array", "items": {"type": "array", "minItems": 900000}, "minItems": 900000}"#.into())),
        ("a string of a million", Grammar::JsonSchema(r#"{"type": "string", "minLength": 900000}"#.into())),
        ("a regex that explodes", Grammar::Regex("(a?){5000}a{5000}".into())),
        ("a state for each bit", Grammar::Regex("(.*)a.{2000}b(.*)c.{2000}".into())),
        ("parentheses", Grammar::Regex(nested("(", ")", 100_000))),
        ("a grammar's parentheses", Grammar::Lark(format!("start: {}", nested("(", ")", 100_000).replace("()", "(\"a\")")))),
        ("brackets", Grammar::Lark(format!("start: {}", nested("[", "]", 60_000).replace("[]", "[\"a\"]")))),
        ("a grammar of itself", Grammar::Lark("start: start start | \"a\" | start".into())),
        ("doubling rules", Grammar::Lark(doubling_rules(40))),
        ("a long rule", Grammar::Lark(format!("start: {}", "\"a\" ".repeat(60_000)))),
        ("repeats of repeats", Grammar::Lark("start: ((((\"a\"{1,1000}){1,1000}){1,1000}){1,1000})".into())),
        ("a long choice", Grammar::Choice((0..256).map(|at| format!("{at}").repeat(300)).collect())),
    ]
}

/// MiB of memory that this process has had at most.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    let kilobytes = number.and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") >> 10
}

#[test]
fn a_grammar_that_wants_too_much_is_refused_and_bounded() {
    const CHILD: &str = "GANGLION_TEST_GREEDY_GRAMMARS";
    const NAME: &str = "guided::hostile::a_grammar_that_wants_too_much_is_refused_and_bounded";
    if std::env::var_os(CHILD).is_none() {
        // Alone in a process: other tests would be in its peak of memory.
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let checkpoint = Checkpoint::open(&path).expect("it is whole");
    let language =
        Language::load(checkpoint.language_source().expect("it has one")).expect("it is known");
    let grammars = Grammars::new(language.words());
    grammars.prepare();
    for (name, grammar) in hostile() {
        let (begun, before) = (Instant::now(), peak());
        // Longer ones than are usual, too.
        let limits = Limits {
            bytes: 1 << 20,
            ..Limits::USUAL
        };
        let made = grammars.guide(&grammar, limits, &[], Thoughts::NONE);
        let compiled = begun.elapsed();
        let (mut steps, mut longest) = (0, Duration::ZERO);
        let outcome = match made {
            Err(error) => error.to_string().chars().take(100).collect(),
            Ok(guide) => say(guide, &language, &mut steps, &mut longest),
        };
        let more = peak() - before;
        println!(
            "{name}: {compiled:?}, {more} MiB more, {steps} tokens of at most {longest:?}: {outcome}"
        );
        assert!(more < 128, "{name} takes {more} MiB");
    }
}

/// The first token that may come, again and again; says why it ended.
fn say(mut guide: Guide, language: &Language, steps: &mut u32, longest: &mut Duration) -> String {
    while *steps < 50 {
        let begun = Instant::now();
        let next = guide.follows();
        *longest = begun.elapsed().max(*longest);
        let vocabulary = u32::try_from(language.vocabulary()).expect("it is small");
        let token = match next {
            Ok(Next::Allowed(mask)) => (0..vocabulary).find(|token| mask.allows(*token)),
            Ok(Next::Forced(tokens)) => tokens.first().copied(),
            Ok(_) => None,
            Err(error) => return error.to_string(),
        };
        let Some(token) = token.filter(|token| !language.is_end(*token)) else {
            return "ends".to_owned();
        };
        if let Err(error) = guide.take(token) {
            return error.to_string();
        }
        *steps += 1;
    }
    "goes on".to_owned()
}

/// Whoever's grammar is being compiled holds up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn others_are_answered_while_a_grammar_that_wants_too_much_is_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::start(folder.path(), 4, 4).await;
    let honest = || async {
        let bound = Grammar::Choice(["yes", "no", "hello a robot"].map(String::from).into());
        let (text, _) = ask(&engine.handle, 2, options(bound, 7))
            .await
            .expect("it is accepted");
        text
    };
    let alone = honest().await;
    let mut meanwhile = 0;
    for (name, grammar) in hostile() {
        let handle = engine.handle.clone();
        let mut options = options(grammar, 0);
        options.max_tokens = 1;
        let hostile = tokio::spawn(async move { ask(&handle, 1, options).await });
        while !hostile.is_finished() {
            assert_eq!(honest().await, alone, "{name}");
            meanwhile += usize::from(!hostile.is_finished());
        }
        let _ = hostile.await.expect("it ends");
    }
    println!("{meanwhile} answers while others' grammars were compiled");
    assert!(meanwhile > 20, "{meanwhile}");
}
