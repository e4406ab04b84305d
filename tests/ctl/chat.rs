//! `chat`: its commands.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::{ctl, run_with_input, text};
use crate::support::daemon::{Client, Daemon, eventually};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn chat_takes_several_lines_options_a_system_message_and_saves() {
    let daemon = Daemon::start("").await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [json, plain] = ["talk.json", "talk.txt"].map(|name| folder.path().join(name));
    let typed = format!(
        "\"\"\"\n/one\ntwo\"\"\"\n/set max_tokens 2\nthree four five\n/set\n/set max_tokens\n/set nonsense 1\n\
         /set seed -1\n/system be brief\n/system\n\"\"\"six seven\"\"\"\n/save {0}\n/save {0}\n/save {1}\n/bye\nnever\n",
        text(&json),
        text(&plain),
    );
    let chat = run_with_input(&["--bus", daemon.bus.text(), "chat"], &typed).await;
    assert_eq!(
        chat.code,
        Some(1),
        "an answer was cut, and commands failed: {chat:?}"
    );
    let expected = format!(
        "sim: /one two\nsim: three\nmax_tokens  2\nbe brief\nsim: six seven\n{}\n{}\n",
        text(&json),
        text(&plain)
    );
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&chat.stdout), words(&expected), "{chat:?}");
    let errors: Vec<_> = chat.stderr.lines().collect();
    let [cut, nonsense, seed, there] = errors[..] else {
        panic!("{chat:?}")
    };
    assert!(cut.contains("incomplete"), "{cut}");
    assert!(
        nonsense.contains("/set nonsense: it must be one of max_tokens"),
        "{nonsense}"
    );
    assert!(
        seed.contains("/set seed: it must be a whole number"),
        "{seed}"
    );
    assert!(there.contains("exists"), "{there}");

    let saved = std::fs::read_to_string(json).expect("it is saved");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let said = [
        message("system", "be brief"),
        message("user", "six seven"),
        message("assistant", "sim: six seven"),
    ];
    assert_eq!(saved, Value::from(said.to_vec()));
    let saved = std::fs::read_to_string(plain).expect("it is saved");
    assert!(saved.ends_with("assistant: sim: six seven\n"), "{saved}");

    let open = run_with_input(&["--bus", daemon.bus.text(), "chat"], "\"\"\"one\n").await;
    assert_eq!(
        (open.code, open.stdout.as_str()),
        (Some(65), ""),
        "{open:?}"
    );
}

/// A chat that is typed line by line.
struct Typist {
    _chat: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Typist {
    fn start(arguments: &[&str]) -> Self {
        let mut chat = ctl(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("ganglionctl runs");
        let piped = "it is piped";
        Self {
            stdin: chat.stdin.take().expect(piped),
            stdout: BufReader::new(chat.stdout.take().expect(piped)).lines(),
            stderr: BufReader::new(chat.stderr.take().expect(piped)).lines(),
            _chat: chat,
        }
    }

    async fn types(&mut self, line: &str) {
        let line = format!("{line}\n");
        let typed = self.stdin.write_all(line.as_bytes()).await;
        typed.expect("it reads");
    }

    /// Reads these lines of its output.
    async fn says(&mut self, lines: &[&str]) {
        for line in lines {
            let read = eventually(self.stdout.next_line()).await;
            assert_eq!(read.expect("it is text").as_deref(), Some(*line));
        }
    }

    /// Reads its reports until a line has this text.
    async fn reports(&mut self, text: &str) {
        loop {
            let read = eventually(self.stderr.next_line()).await;
            let line = read.expect("it is text").expect("it reports something");
            if line.contains(text) {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_continues_sessions_and_files() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!("sessions.directory = '{}/s'\n", folder.path().display());
    let _daemon = Process::start(&bus, "", &config).await;
    let chat = async |arguments: &[&str], typed: &str| {
        let arguments = [&["--bus", bus.text(), "chat"], arguments].concat();
        run_with_input(&arguments, typed).await
    };
    let system = folder.path().join("system.txt");
    std::fs::write(&system, "be brief\n").expect("it is written");
    let file = folder.path().join("talk.json");
    let named = ["--session", "tour", "--system-file", text(&system)];
    let first = chat(&named, "one\ntwo\n/undo\n").await;
    assert_eq!(first.code, Some(0), "{first:?}");

    let typed = format!(
        "/system\nthree\n/save {0}\n/clear\n/sessions\n/new\n/history\n/load {0}\nfour\n/undo\n/undo\n/history\n\
         /load tour\n/history\n/load nothing\n",
        text(&file)
    );
    let second = chat(&["--session", "tour"], &typed).await;
    assert_eq!(second.code, Some(1), "the last command fails: {second:?}");
    assert!(second.stderr.contains("/load nothing"), "{second:?}");
    let lines: Vec<_> = second.stdout.lines().collect();
    let path = text(&file);
    assert_eq!(lines[..4], ["be brief", "sim: three", path, lines[3]]);
    assert!(lines[3].contains("turns"), "{second:?}");
    assert!(lines[4].starts_with("tour"), "{second:?}");
    assert_eq!(
        lines[5..],
        [
            "system: be brief",
            "sim: four",
            "system: be brief",
            "user: one",
            "assistant: sim: one",
            "system: be brief",
        ]
    );

    // The options of a session that a program created stay, unless others are given.
    let client = Client::connect(&bus).await;
    let session = client
        .manager
        .open_session([("name", "tour".into())].into());
    session.await.expect("it is free");
    let held = chat(&["--session", "tour"], "five\n").await;
    assert_eq!(held.code, Some(75), "{held:?}");
    let taken = chat(&["--session", "tour", "--take"], "five\n/history\n").await;
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(taken.stdout.ends_with("user: five\nassistant: sim: five\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_drops_its_oldest_turns_unless_disabled() {
    let daemon = Daemon::start("context=20").await;
    let lines = "one two three\nfour five six\nseven eight nine\nten eleven\n";
    let chat = ["--bus", daemon.bus.text(), "chat"];
    let rolling = run_with_input(&chat, lines).await;
    assert_eq!(rolling.code, Some(0), "{rolling:?}");
    let typed = format!("/set overflow error\n/set\n{lines}/set overflow no\n");
    let strict = run_with_input(&chat, &typed).await;
    assert_eq!(strict.code, Some(1), "{strict:?}");
    assert!(strict.stdout.starts_with("overflow  error\n"), "{strict:?}");
    assert!(
        strict.stderr.contains("context") && strict.stderr.contains("/set overflow"),
        "{strict:?}"
    );
}

/// A named session is opened again after the loss of the daemon or the bus, however late they return.
#[tokio::test(flavor = "multi_thread")]
async fn chat_finds_its_session_again() {
    let mut bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!("sessions.directory = '{}/s'\n", folder.path().display());
    let daemon = Process::start(&bus, "", &config).await;
    let address = bus.text().to_owned();
    let mut chat = Typist::start(&["--bus", &address, "chat", "--session", "tour"]);
    let mut other = Typist::start(&["--bus", &address, "chat", "--system", "be brief"]);
    for chat in [&mut chat, &mut other] {
        chat.types("one").await;
        chat.says(&["sim: one"]).await;
    }
    // A turn is over when the next command is answered.
    chat.types("/system").await;
    chat.says(&[""]).await;
    other.types("/system").await;
    other.says(&["be brief"]).await;
    drop(daemon);
    for chat in [&mut chat, &mut other] {
        chat.types("two").await;
        chat.reports("waiting").await;
    }
    let _daemon = Process::start(&bus, "", &config).await;
    for chat in [&mut chat, &mut other] {
        chat.says(&["sim: two"]).await;
        chat.reports("restarted").await;
    }
    bus.restart();
    for chat in [&mut chat, &mut other] {
        chat.types("three").await;
        chat.says(&["sim: three"]).await;
        chat.reports("bus was lost").await;
        chat.types("/history").await;
    }
    let said = ["one", "two", "three"]
        .map(|text| [format!("user: {text}"), format!("assistant: sim: {text}")]);
    let said: Vec<_> = said.iter().flatten().map(String::as_str).collect();
    chat.says(&said).await;
    other.says(&["system: be brief"]).await;
    other.says(&said).await;
}

/// The printed part of an answer survives the daemon.
#[tokio::test(flavor = "multi_thread")]
async fn chat_continues_from_an_answer_during_which_the_daemon_died() {
    let bus = PrivateBus::start();
    let daemon = Process::start(&bus, "tokens=1000,delay=100ms", "").await;
    let mut chat = Typist::start(&["--bus", bus.text(), "chat", "--max-tokens", "1000"]);
    chat.types("one").await;
    let begun = chat.stdout.get_mut().fill_buf();
    assert!(!eventually(begun).await.expect("it is text").is_empty());
    drop(daemon);
    chat.reports("died").await;
    let begun = eventually(chat.stdout.next_line()).await;
    let begun = begun.expect("it is text").expect("a line");
    assert!(begun.starts_with("sim:"), "{begun}");
    let _daemon = Process::start(&bus, "", "").await;
    chat.types("two").await;
    chat.says(&["sim: two"]).await;
    chat.types("/history").await;
    let answer = format!("assistant: {begun}");
    chat.says(&["user: one", &answer, "user: two", "assistant: sim: two"])
        .await;
}
