//! Chat templates with endless nesting, growth or loops: each is an error of its model without other effects.

use std::process::Command;

use ganglion::engine::{Codec, Refusal};
use ganglion::model::checkpoint::LanguageSource;
use ganglion::model::language_error::LanguageError;
use ganglion::model::{Checkpoint, Language, Manner, Message, Role};
use nix::sys::resource::{UsageWho, getrusage};

use crate::support::tiny_gguf;

fn language(template: &str) -> Result<Language, LanguageError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let model = tiny_gguf::with_template(template).file();
    std::fs::write(&path, model).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let LanguageSource::Gguf(vocabulary) = checkpoint.language_source().unwrap() else {
        panic!("a GGUF file");
    };
    Language::load(&LanguageSource::Gguf(vocabulary.clone()))
}

fn say(language: &Language, text: &str) -> Result<String, LanguageError> {
    let message = Message::new(Role::User, text);
    Ok(language.prompt(&[message], None)?.text())
}

/// Templates that recurse deeper than any stack in the compiler.
fn deep() -> Vec<String> {
    let around = |open: &str, middle: &str, close: &str| {
        let times = 900_000 / (open.len() + close.len());
        format!(
            "{{{{ {}{middle}{} }}}}",
            open.repeat(times),
            close.repeat(times)
        )
    };
    let blocks = 30_000;
    vec![
        around("(", "1", ")"),
        around("[", "1", "]"),
        around("{'a':", "1", "}"),
        around("not ", "1", ""),
        around("-", "1", ""),
        around("", "1", " ~ 1"),
        around("", "1", " + 1"),
        around("", "1", " and 1"),
        around("", "x", ".a"),
        around("", "x", "[0]"),
        around("", "x", "|trim"),
        around("", "x", "(1)"),
        around("", "x", " is defined"),
        around("1 if 0 else ", "1", ""),
        "{% if x %}".repeat(blocks) + &"{% endif %}".repeat(blocks),
        "{% for x in [] %}".repeat(blocks) + &"{% endfor %}".repeat(blocks),
        format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(blocks)),
    ]
}

/// Templates that need few steps, and all memory or the whole stack.
const GREEDY: [&str; 17] = [
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}\
     {% set ns.s = t %}{% endfor %}",
    "{% set ns = namespace(s='x' * 100000) %}{% for i in range(9) %}{% set ns.s = ns.s|replace('x', ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='x' * 100000) %}{% for i in range(9) %}{% set ns.s = ns.s|list|join(ns.s) %}{% endfor %}",
    "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l|list }}",
    "{{ 'x' * 100000000000 }}",
    "{{ [0] * 100000000000 }}",
    "{{ '%1000000000d'|format(1) }}{{ '%1000000000d'|format(1) }}",
    "{{ [1]|batch(10000000000, 0)|list }}",
    "{{ [1]|slice(10000000000, 0)|list }}",
    "{% set s = 'x\n' * 1000000 %}{{ s|indent(100000) }}",
    "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns|tojson }}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
];

const ENDLESS: [&str; 2] = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set s = 'x' * 9999999 %}{% for a in range(99999) %}{% if 'y' in s %}{% endif %}{% endfor %}",
];

/// A template that one conversation stops.
const SOMETIMES: &str = "{% set ns = namespace(s='y') %}{% for i in range(60) %}{% if messages[0].content == 'x' %}\
     {% set ns.s = ns.s ~ ns.s %}{% endif %}{% endfor %}{{ ns.s }}";

/// Otherwise the next turn of a session would have other tokens than its past, without an error.
#[test]
fn tokens_are_not_compared_with_a_stopped_rendering() {
    let codec = Codec::Model(language(SOMETIMES).unwrap());
    let recognize = |text: &str| {
        let asked = [Message::new(Role::User, text)];
        let recognized = codec.recognize(&[1], &asked, Manner::default());
        recognized.map(|prompt| prompt.is_some())
    };
    let stopped = recognize("x");
    assert!(
        matches!(stopped, Err(Refusal::InvalidMessages(_))),
        "{stopped:?}"
    );
    assert!(matches!(recognize("hello"), Ok(false)));
}

#[test]
fn long_conversations_are_within_the_bounds() {
    let template = "{% for m in messages %}{{ m.role + ': ' + m.content|trim }}\n{% endfor %}";
    let language = language(template).unwrap();
    let content = "All that a robot has seen. ".repeat(40);
    let message = Message::new(Role::User, content.clone());
    let prompt = language.prompt(&vec![message; 8192], None).unwrap();
    let line = format!("user: {}\n", content.trim());
    assert_eq!(prompt.text(), line.repeat(8192));
}

#[test]
fn an_excessive_template_is_an_error_of_its_model() {
    const CHILD: &str = "GANGLION_TEST_GREEDY_TEMPLATES";
    const NAME: &str = "hostile::templates::an_excessive_template_is_an_error_of_its_model";
    if std::env::var_os(CHILD).is_none() {
        // Its own process, because other tests' children would add to its peak memory.
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let greedy = GREEDY.iter().chain(&ENDLESS).map(|text| (*text).to_owned());
    let mut harmless = Vec::new();
    for template in deep().into_iter().chain(greedy) {
        let start: String = template.chars().take(120).collect();
        // An error in the template itself appears at the first conversation.
        match language(&template).and_then(|language| say(&language, "hello")) {
            Err(LanguageError::Stopped(_) | LanguageError::Template(_)) => {}
            Err(error) => panic!("{start}: {error}"),
            Ok(_) => harmless.push(start),
        }
    }
    assert!(harmless.is_empty(), "{harmless:#?}");
    // After one conversation has stopped it, the next one is rendered.
    let language = language(SOMETIMES).unwrap();
    for _ in 0..2 {
        let stopped = say(&language, "x").unwrap_err();
        assert!(matches!(stopped, LanguageError::Stopped(_)), "{stopped}");
        assert_eq!(say(&language, "hello").unwrap(), "y");
    }

    // Not from getrusage, which includes the parent's peak.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    let ours = peak.expect("a figure of the kernel") >> 10;
    let theirs = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() >> 10;
    assert!(ours < 256 && theirs < 320, "{ours} {theirs}");
}
