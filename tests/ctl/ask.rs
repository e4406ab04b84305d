//! `ask`: standard input, JSON output, and progress messages.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{ctl, finish, run, run_with_input};
use crate::support::daemon::{Daemon, eventually};
use crate::support::restartable::Restartable;
use crate::tools::{TOOLS, fits, hermes};

#[tokio::test(flavor = "multi_thread")]
async fn piped_input_is_part_of_the_question() {
    let daemon = Daemon::start("").await;
    let bus = daemon.bus.text();
    for (words, input, answer) in [
        (
            &["Summarise:"][..],
            "one\ntwo\n",
            "sim: Summarise: one two\n",
        ),
        (&["-", "in", "short"], "one\n", "sim: one in short\n"),
        (&["alone"], "", "sim: alone\n"),
        (&[], "one\n", "sim: one\n"),
    ] {
        let ask = [&["--bus", bus, "ask", "--quiet"], words].concat();
        let asked = run_with_input(&ask, input).await;
        assert_eq!(asked.code, Some(0), "{words:?}: {asked:?}");
        let said: Vec<_> = asked.stdout.split_whitespace().collect();
        assert_eq!(said.join(" "), answer.trim_end(), "{words:?}");
    }
    let long = "x".repeat((1 << 20) + 1);
    for (words, input, code, why) in [
        (&["Summarise:"][..], long.as_str(), 65, "longer than 1 MiB"),
        (&[], "\n", 2, "there is no question"),
        (&["one"], "a\0b", 65, "NUL"),
    ] {
        let asked = run_with_input(&[&["--bus", bus, "ask"], words].concat(), input).await;
        assert_eq!(asked.code, Some(code), "{words:?}: {asked:?}");
        assert!(asked.stderr.contains(why), "{asked:?}");
    }
}

/// An open pipe without an end is distinguished from a hanging daemon, and all its input is used.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_the_end_of_input_is_reported() {
    let daemon = Daemon::start("").await;
    let mut asking = ctl(&["--bus", daemon.bus.text(), "ask", "Summarise:"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("ganglionctl runs");
    let stderr = asking.stderr.as_mut().expect("it is piped");
    let mut warning = String::new();
    eventually(BufReader::new(stderr).read_line(&mut warning))
        .await
        .expect("it says something");
    assert!(
        warning.contains("standard input") && warning.contains("</dev/null"),
        "{warning}"
    );
    let mut stdin = asking.stdin.take().expect("it is piped");
    stdin.write_all(b"late\n").await.expect("it reads");
    drop(stdin);
    let asked = finish(asking).await;
    assert!(asked.stdout.ends_with("late\n"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_one_object_with_the_receipt() {
    let daemon = Daemon::start("").await;
    let json = ["--bus", daemon.bus.text(), "ask", "--json"];
    let asked = run(&[&json[..], &["--seed", "7", "one", "two"]].concat()).await;
    let whole: Value = serde_json::from_str(&asked.stdout).expect("one object");
    assert_eq!(whole["text"], "sim: one two");
    assert_eq!(whole["finish_reason"], "stop");
    assert_eq!(
        (&whole["seed"], &whole["usage"]["seed"]),
        (&7.into(), &7.into())
    );
    assert_eq!(whole["usage"]["completion_tokens"], 3);
    assert_eq!((asked.code, asked.stderr.as_str()), (Some(0), ""));

    let breaking = Daemon::start("fail_after=1").await;
    let asked = run(&["--bus", breaking.bus.text(), "ask", "--json", "hi"]).await;
    let whole: Value = serde_json::from_str(&asked.stdout).expect("one object");
    assert_eq!(
        (asked.code, &whole["finish_reason"]),
        (Some(1), &"error".into())
    );
    let error = whole["error"].as_str().expect("its name");
    assert!(error.starts_with("org.ganglion.Llm1.Error."), "{whole}");
}

/// A script that pipes an answer must notice that it is incomplete.
#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_answer_is_a_failure() {
    let long = Daemon::start("tokens=1000,delay=100ms").await;
    let narrow = Daemon::start("context=4").await;
    let mut bound = Restartable::new();
    bound.start("kv.context = 200\n").await;
    let schema = bound.folder.path().join("schema.json");
    std::fs::write(&schema, r#"{"type":"array","minItems":40}"#).expect("it is written");
    let schema = schema.display().to_string();
    let cases: [(&str, &[&str], &str, &str); 4] = [
        (
            long.bus.text(),
            &["--max-tokens", "1"],
            "length",
            "--max-tokens",
        ),
        (
            long.bus.text(),
            &["--deadline-ms", "500"],
            "deadline",
            "--deadline-ms",
        ),
        (narrow.bus.text(), &[], "context", "kv.context"),
        (
            bound.bus.text(),
            &["--max-tokens", "4", "--schema", &schema],
            "length",
            "--max-tokens",
        ),
    ];
    for (bus, options, reason, remedy) in cases {
        let ask = ["--bus", bus, "ask", "--quiet", "one two"];
        let asked = run(&[&ask[..], options].concat()).await;
        assert_eq!(asked.code, Some(1), "{reason}: {asked:?}");
        assert!(!asked.stdout.is_empty(), "{reason}: {asked:?}");
        let lines: Vec<_> = asked.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{reason}: {asked:?}");
        assert!(
            lines[0].contains("incomplete") && lines[0].contains(remedy),
            "{asked:?}"
        );

        let asked = run(&[&ask[..], options, &["--json"]].concat()).await;
        let whole: Value = serde_json::from_str(&asked.stdout).expect("one object");
        assert_eq!(
            (asked.code, &whole["finish_reason"]),
            (Some(1), &reason.into())
        );
        assert_eq!(
            whole["incomplete"] == true,
            options.contains(&"--schema"),
            "{whole}"
        );

        let chat = ["--bus", bus, "chat"];
        let chat = run_with_input(&[&chat[..], options].concat(), "one two\n").await;
        assert_eq!(chat.code, Some(1), "{reason}: {chat:?}");
        assert!(chat.stderr.contains("incomplete"), "{chat:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keywords_that_are_not_checked_are_printed() {
    let mut served = Restartable::new();
    served.start("").await;
    let schema = served.folder.path().join("schema.json");
    let text =
        r#"{"type": "array", "items": {"type": "boolean"}, "maxItems": 2, "uniqueItems": true}"#;
    std::fs::write(&schema, text).expect("it is written");
    let schema = schema.display().to_string();
    let ask = [
        "--bus",
        served.bus.text(),
        "ask",
        "--schema",
        &schema,
        "one",
    ];
    let strict = run(&ask).await;
    assert_eq!(strict.code, Some(2), "{strict:?}");
    assert!(strict.stderr.contains("/uniqueItems"), "{strict:?}");
    let lenient = run(&[&ask[..], &["--schema-lenient", "--json"]].concat()).await;
    let whole: Value = serde_json::from_str(&lenient.stdout).expect("one object");
    assert_eq!(whole["unchecked"], serde_json::json!(["/uniqueItems"]));
    let lenient = run(&[&ask[..], &["--schema-lenient"]].concat()).await;
    assert!(
        lenient.stderr.contains("not checked: /uniqueItems"),
        "{lenient:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_user_sees_the_load() {
    let daemon = Daemon::start("load=3600s").await;
    let mut asking = ctl(&["--bus", daemon.bus.text(), "ask", "hello"])
        .spawn()
        .expect("ganglionctl runs");
    let stderr = asking.stderr.as_mut().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines();
    loop {
        let line = eventually(lines.next_line())
            .await
            .expect("it says something");
        let line = line.expect("it waits");
        if line.contains("the model is being loaded") {
            break;
        }
    }
}

/// The program runs once per call with the call as input. The model calls until a tool choice stops it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_the_models_calls() {
    let mut served = Restartable::with(&hermes());
    served
        .start("kv.context = 512\nsampling.max_tokens = 90\nmodel.thinking = false\n")
        .await;
    let file = |name: &str, text: &str| {
        let path = served.folder.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path.display().to_string()
    };
    let tools = file("tools.json", TOOLS);
    let done = file("done", "");
    let robot = format!("#!/bin/sh\necho \"$1 $(cat)\" >>{done}\necho bump\n");
    let robot = file("robot.sh", &robot);
    std::fs::set_permissions(&robot, std::fs::Permissions::from_mode(0o755)).expect("it runs");
    let ask = [
        "--bus",
        served.bus.text(),
        "ask",
        "--tools",
        &tools,
        "--tool-choice",
        "required",
        "--one-call",
    ];
    let asked = run(&[&ask[..], &["--json", "hello"]].concat()).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let said: Value = serde_json::from_str(&asked.stdout).expect("one object");
    let function = &said["tool_calls"][0]["function"];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    assert!(
        fits(&text(&function["name"]), &text(&function["arguments"])),
        "{said}"
    );
    assert_eq!(said["finish_reason"], "tool_calls");

    let bus = served.bus.text();
    let likely = ["--json", "--logprobs", "2", "--max-tokens", "3", "hello"];
    let asked = run(&[&["--bus", bus, "ask"], &likely[..]].concat()).await;
    let said: Value = serde_json::from_str(&asked.stdout).expect("one object");
    let logprobs = said["logprobs"].as_array().expect("an array");
    assert!(!logprobs.is_empty() && logprobs.len() <= 3, "{said}");
    assert!(
        logprobs
            .iter()
            .all(|one| one["best"][1]["logprob"].is_f64()),
        "{said}"
    );

    let asked = run(&[&ask[..], &["--call", &robot, "hello"]].concat()).await;
    // Repeated calls are allowed.
    assert!(matches!(asked.code, Some(0 | 1)), "{asked:?}");
    let done = std::fs::read_to_string(done).expect("it ran");
    let lines: Vec<_> = done.lines().collect();
    assert!(!lines.is_empty(), "{asked:?}");
    for line in lines {
        let (name, arguments) = line.split_once(' ').expect("both");
        assert!(fits(name, arguments), "{line}");
        assert!(asked.stderr.contains(line), "{asked:?}");
    }
}
