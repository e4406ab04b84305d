//! Excessive grammars: an error of their option, within bounded time and memory, and the process survives.

use std::time::Duration;

use ganglion::engine::State;
use ganglion::guide::{Grammar, GrammarError, Grammars, Guide, Limits, Next, Thoughts};
use ganglion::model::{Checkpoint, Language};

use super::{ask, options};
use crate::support::tiny_gguf;
use crate::text;
use crate::together::Engine;
use crate::tools::excessive_tools;

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
    // Each doubles the number of states, before the library checks any of its limits.
    let patterns = |n: usize| {
        let one = |at| format!(r#"{{"pattern": "a.*b{at}.*c"}}"#);
        let all: Vec<_> = (0..n).map(one).collect();
        format!(r#"{{"type": "string", "allOf": [{}]}}"#, all.join(", "))
    };
    let different = |n: usize, join: &str| {
        let one = |at| format!("/.*a{at}.*b.*c/");
        (0..n).map(one).collect::<Vec<_>>().join(join)
    };
    let names = |n: usize| {
        let one = |at| format!(r#""^a.*{at}.*b$": {{"type": "integer"}}"#);
        let all: Vec<_> = (0..n).map(one).collect();
        format!(
            r#"{{"type": "object", "patternProperties": {{{}}}}}"#,
            all.join(", ")
        )
    };
    let long_pointers = |n: usize| {
        let (open, name) = (r#"{"properties": {"#, "long".repeat(400));
        let nested = format!(r#"{open}"{name}": "#).repeat(n);
        format!(r#"{nested}{{"type": "nothing"}}{}"#, "}}".repeat(n))
    };
    vec![
        ("patterns in conjunction", Grammar::JsonSchema(patterns(28))),
        ("more patterns in conjunction", Grammar::JsonSchema(patterns(200))),
        ("a conjunction in a grammar", Grammar::Lark(format!("start: X\nX: {}", different(28, " & ")))),
        ("400 patterns of names", Grammar::JsonSchema(names(400))),
        ("multiples of a million", Grammar::JsonSchema(r#"{"type": "integer", "multipleOf": 1000003}"#.into())),
        ("long pointers", Grammar::JsonSchema(long_pointers(60))),
        ("a schema with the word of a grammar", Grammar::Lark(format!("start: %json {}", wide(3_000).replacen(r#""p0""#, r#""%json""#, 1)))),
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

/// Returns the peak memory of a process in MiB.
fn peak(process: &str) -> Option<u64> {
    memory(process, "VmHWM:")
}

/// Returns a memory figure of a process by its name, in MiB.
fn memory(process: &str, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    let kilobytes = number.and_then(|number| number.parse::<u64>().ok());
    Some(kilobytes? >> 10)
}

/// Returns the peak memory of each descendant process in MiB.
fn peaks() -> Vec<u64> {
    below().iter().filter_map(|id| peak(id)).collect()
}

/// Returns the anonymous memory of each descendant process in MiB.
fn anonymous() -> Vec<u64> {
    let below = below();
    below
        .iter()
        .filter_map(|id| memory(id, "RssAnon:"))
        .collect()
}

/// Returns the descendants of this process.
fn below() -> Vec<String> {
    let parents: Vec<(String, String)> = std::fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| {
            let id = entry.ok()?.file_name().into_string().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            Some((id, parent.to_owned()))
        })
        .collect();
    let mut below = vec![std::process::id().to_string()];
    let mut at = 0;
    while at < below.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == below[at]);
        let children: Vec<_> = children.map(|(id, _)| id.clone()).collect();
        below.extend(children);
        at += 1;
    }
    below.split_off(1)
}

/// Higher limits of the text than usual, and a short time limit.
const HOSTILE: Limits = Limits {
    bytes: 1 << 20,
    compile: Duration::from_secs(1),
    ..Limits::USUAL
};

#[test]
fn an_excessive_grammar_is_refused_and_bounded() {
    const CHILD: &str = "GANGLION_TEST_GREEDY_GRAMMARS";
    const NAME: &str = "guided::hostile::an_excessive_grammar_is_refused_and_bounded";
    if std::env::var_os(CHILD).is_none() {
        // Its own process, because other tests would add to its peak memory.
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
    let own = |process| peak(process).expect("a number");
    for (name, grammar) in hostile().into_iter().chain(excessive_tools()) {
        let before = own("self");
        if let Ok(guide) = grammars.guide(&grammar, HOSTILE, &[], Thoughts::NONE) {
            say(guide, &language);
        }
        let more = own("self") - before;
        let processes = peaks();
        assert!(more < 64, "{name} takes {more} MiB of the daemon");
        assert!(
            processes.iter().all(|mib| *mib < 400),
            "{name}: {processes:?}"
        );
    }
    large_schemas_leave_little_memory(&grammars);
}

/// A grammar that exceeded its process's limits is refused again without a process, for the same user only.
#[test]
fn a_grammar_that_was_stopped_is_not_tried_again() {
    let language = text::load(text::qwen3_style());
    let grammars = Grammars::new(language.words());
    let exploding = hostile().swap_remove(0).1;
    let limits = Limits {
        compile: Duration::from_millis(50),
        ..Limits::USUAL
    };
    let first = grammars.check(1, &exploding, limits, || true);
    let Err(GrammarError::Stopped { option, why }) = &first else {
        panic!("{first:?}");
    };
    assert_eq!(*option, "json_schema");
    assert!(why.contains("limits.grammar_seconds"), "{why}");
    let unasked = || panic!("it is known");
    assert_eq!(grammars.check(1, &exploding, limits, unasked), first);
    // Another user's grammar is compiled separately. An unwanted compilation ends.
    let other = grammars.check(2, &exploding, Limits::USUAL, || false);
    assert_eq!(other, Err(GrammarError::Unwanted));
    let small = Grammar::Choice(vec!["yes".into(), "no".into()]);
    assert_eq!(grammars.check(1, &small, Limits::USUAL, || true), Ok(()));
    // A compiled grammar serves its own user only: its speed would reveal it to others.
    let lent = |user| grammars.lend(user, &small, Limits::USUAL, &[], Thoughts::NONE);
    assert!(matches!(lent(2), Ok(None)));
    assert!(matches!(lent(1), Ok(Some(_))));
}

/// Large schemas leave little memory behind: their processes count with their memory.
fn large_schemas_leave_little_memory(grammars: &Grammars) {
    let limits = Limits {
        compile: Duration::from_secs(20),
        ..Limits::USUAL
    };
    for at in 0..10 {
        let property =
            |of| format!(r#""p{at}x{of}": {{"type": "string", "pattern": "^[a-z]{{0,9}}$"}}"#);
        let all: Vec<_> = (0..500).map(property).collect();
        let all = all.join(", ");
        let schema = format!(r#"{{"type": "object", "properties": {{{all}}}}}"#);
        let grammar = Grammar::JsonSchema(schema);
        let guide = grammars.guide(&grammar, limits, &[], Thoughts::NONE);
        guide
            .expect("it is compiled")
            .follows()
            .expect("it goes on");
    }
    // A process counts until its answer has ended.
    let mut kept = u64::MAX;
    for _ in 0..200 {
        kept = anonymous().iter().sum();
        if kept < 200 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(kept < 200, "{kept} MiB");
}

/// Takes the first allowed token of each step, until none is left or there are enough.
fn say(mut guide: Guide, language: &Language) {
    for _ in 0..50 {
        let next = guide.follows();
        let vocabulary = u32::try_from(language.vocabulary()).expect("it is small");
        let token = match next {
            Ok(Next::Allowed(mask)) => (0..vocabulary).find(|token| mask.allows(*token)),
            Ok(Next::Forced(tokens)) => tokens.first().copied(),
            _ => None,
        };
        let Some(token) = token.filter(|token| !language.is_end(*token)) else {
            return;
        };
        guide.take(token);
    }
}

/// A grammar that is being compiled delays no other request.
#[tokio::test(flavor = "multi_thread")]
async fn other_requests_are_answered_while_an_excessive_grammar_is_compiled() {
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
    assert!(meanwhile > 20, "{meanwhile}");
}

/// Exploding grammars never delay prompts: two users send them, also during a load. A third user is answered before
/// their processes are stopped.
#[tokio::test(flavor = "multi_thread")]
async fn exploding_grammars_delay_no_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let handle = Engine::loading(folder.path());
    let exploding = |user: u32, loading: bool| {
        // Compiling it takes seconds or much memory; a repeated one is refused at once.
        let of = 2 * user + u32::from(loading);
        let patterns = (0..28).map(|n| format!(r#"{{"pattern": "a.*b{of}c{n}.*c"}}"#));
        let patterns = patterns.collect::<Vec<_>>().join(", ");
        let slow = format!(r#"{{"type": "string", "allOf": [{patterns}]}}"#);
        let (handle, grammar) = (handle.clone(), Grammar::JsonSchema(slow));
        tokio::spawn(async move { ask(&handle, user, options(grammar, 0)).await })
    };
    let free = |user| {
        let mut options = options(Grammar::Json, 0);
        (options.grammar, options.max_tokens) = (None, 4);
        ask(&handle, user, options)
    };
    let choice = || {
        let choices = Grammar::Choice(["yes", "no"].map(String::from).into());
        ask(&handle, 3, options(choices, 0))
    };
    for loading in [true, false] {
        let hostile = [exploding(1, loading), exploding(2, loading)];
        let (text, _) = free(3).await.expect("it is answered");
        assert!(!text.is_empty());
        if !loading {
            // Its grammar is compiled already, so it waits for no other.
            let (text, _) = choice().await.expect("it is answered");
            assert!(["yes", "no"].contains(&text.as_str()));
        }
        assert!(hostile.iter().any(|one| !one.is_finished()), "{loading}");
        for one in hostile {
            let refused = match one.await.expect("it ends") {
                Err(refusal) => refusal.to_string(),
                Ok((_, outcome)) => outcome.error.expect("it is refused").to_string(),
            };
            assert!(refused.contains("costs too much"), "{refused}");
        }
        assert_eq!(handle.status().borrow().state, State::Ready);
        choice().await.expect("it is compiled");
    }
    handle.close();
}
