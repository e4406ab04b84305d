//! `ganglionctl` as its users run it: a process with arguments, pipes, signals and exit codes.

mod ask;
mod bench;
mod chat;
mod hold;
mod images;
mod mistakes;
mod models;
mod openai;
mod prefill_progress;
mod reload;
mod sessions;
mod status;
mod verify;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use ganglion::bus::BusConfig;
use ganglion::engine::State;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::support::daemon::{Daemon, eventually, until};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;

fn ctl(arguments: &[&str]) -> Command {
    // Shells start background jobs with SIGINT ignored, and `hold` would ignore it, too.
    let mut command = Command::new("env");
    command
        .arg("--default-signal")
        .arg(env!("CARGO_BIN_EXE_ganglionctl"))
        .args(arguments)
        .env_remove("GANGLION_BUS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn finish(child: Child) -> Finished {
    let Output {
        status,
        stdout,
        stderr,
    } = eventually(child.wait_with_output())
        .await
        .expect("its output can be read");
    Finished {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("it writes UTF-8"),
        stderr: String::from_utf8(stderr).expect("it writes UTF-8"),
    }
}

/// The output and exit code of a process.
#[derive(Debug)]
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

async fn run(arguments: &[&str]) -> Finished {
    finish(ctl(arguments).spawn().expect("ganglionctl runs")).await
}

/// Runs it as a user without rights, in one group. Only root can.
async fn run_as(group: u32, arguments: &[&str]) -> Finished {
    // Other users may have no access to the build folder.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("its mode");
    let program = folder.path().join("ganglionctl");
    // A process that another test starts in the meantime would inherit the open file, which cannot be run then.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_ganglionctl"))
        .arg(&program)
        .status()
        .await;
    assert!(copied.expect("cp runs").success());
    let running = Command::new("setpriv")
        .args([
            "--reuid=65534",
            &format!("--regid={group}"),
            "--clear-groups",
        ])
        .arg(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(running.expect("setpriv runs")).await
}

async fn run_with_input(arguments: &[&str], input: &str) -> Finished {
    let mut child = ctl(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .expect("ganglionctl runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    finish(child).await
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn ask_prints_the_answer_and_its_receipt() {
    let daemon = Daemon::start("").await;
    let bus = daemon.bus.text();
    let asked = run(&["--bus", bus, "ask", "one", "two"]).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(asked.stdout, "sim: one two\n");
    for part in ["3 tokens", "first token", "tokens/s", "GB/s"] {
        assert!(asked.stderr.contains(part), "{part} is missing: {asked:?}");
    }

    let piped = run_with_input(&["--bus", bus, "ask", "--quiet", "-"], "from\na pipe\n").await;
    assert_eq!(piped.stdout, "sim: from a pipe\n");
    assert_eq!(piped.stderr, "");

    let frames = run(&["--bus", bus, "ask", "--frames", "--max-tokens", "2", "one"]).await;
    let last = frames.stdout.lines().last().expect("frames are printed");
    let last: Value = serde_json::from_str(last).expect("a frame is JSON");
    assert_eq!(last["finish_reason"], "stop");
    assert_eq!(last["usage"]["completion_tokens"], 2);
}

/// The first words arrive before the answer is complete. Ctrl-C and a leaving reader cancel the request.
#[tokio::test(flavor = "multi_thread")]
async fn ask_streams_and_is_cancelled_by_ctrl_c_and_by_a_reader_that_leaves() {
    let daemon = Daemon::start("tokens=1000,delay=100ms").await;
    for leave in [false, true] {
        let mut asking = ctl(&[
            "--bus",
            daemon.bus.text(),
            "ask",
            "--quiet",
            "--max-tokens",
            "1000",
            "word",
        ])
        .spawn()
        .expect("ganglionctl runs");
        let mut first = [0; 4];
        let stdout = asking.stdout.as_mut().expect("it is piped");
        eventually(stdout.read_exact(&mut first))
            .await
            .expect("text comes");
        assert_eq!(&first, b"sim:");
        let expected = if leave {
            drop(asking.stdout.take());
            0
        } else {
            let process = asking.id().and_then(|id| i32::try_from(id).ok());
            kill(Pid::from_raw(process.expect("it runs")), Signal::SIGINT).expect("it runs");
            130
        };
        let asked = finish(asking).await;
        assert_eq!(asked.code, Some(expected), "{asked:?}");
        assert_eq!(asked.stderr, "");
        eventually(daemon.engine.idle()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_through_a_pipe_keeps_its_history_and_continues_after_errors() {
    let daemon = Daemon::start("context=12").await;
    let chat = run_with_input(
        &[
            "--bus",
            daemon.bus.text(),
            "chat",
            "--system",
            "be brief",
            "--overflow",
            "error",
        ],
        "one two\n\n/nothing\nmuch too long for a context of twelve\nthree\n/history\n/undo\n/history\n/clear\n\
         /history\n",
    )
    .await;
    assert_eq!(chat.code, Some(1), "{chat:?}");
    assert_eq!(
        chat.stdout,
        "sim: one two\nsim: three\n\
         system: be brief\nuser: one two\nassistant: sim: one two\nuser: three\nassistant: sim: three\n\
         system: be brief\nuser: one two\nassistant: sim: one two\nsystem: be brief\n"
    );
    let errors: Vec<&str> = chat.stderr.lines().collect();
    assert_eq!(errors.len(), 2, "{chat:?}");
    assert!(errors[0].contains("/nothing"), "{chat:?}");
    assert!(errors[1].contains("context"), "{chat:?}");
}

/// After a restart the same paths are other sessions: the chat notices, reports it, and continues from its messages.
#[tokio::test(flavor = "multi_thread")]
async fn chat_survives_a_restart_of_the_daemon() {
    let bus = PrivateBus::start();
    let mut daemon = start_daemon(&bus).await;
    let mut chat = ctl(&["--bus", bus.text(), "chat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("ganglionctl runs");
    let mut stdin = chat.stdin.take().expect("it is piped");
    let mut stdout = chat.stdout.take().expect("it is piped");
    for answer in ["sim: before\n", "sim: after\n"] {
        let line = answer.trim_start_matches("sim: ");
        stdin.write_all(line.as_bytes()).await.expect("it reads");
        let mut read = vec![0; answer.len()];
        eventually(stdout.read_exact(&mut read))
            .await
            .expect("it answers");
        assert_eq!(String::from_utf8_lossy(&read), answer);
        // The turn is over when the next command is answered.
        stdin.write_all(b"/system\n").await.expect("it reads");
        eventually(stdout.read_exact(&mut [0]))
            .await
            .expect("it answers");
        daemon.kill().await.expect("it runs");
        daemon = start_daemon(&bus).await;
    }
    let last = b"/undo\nlast\n/history\n/clear\n/history\nend\n";
    stdin.write_all(last).await.expect("it reads");
    drop(stdin);
    let mut rest = String::new();
    eventually(stdout.read_to_string(&mut rest))
        .await
        .expect("it is text");
    let said = |text: &str| format!("user: {text}\nassistant: sim: {text}\n");
    let history = said("before") + &said("last");
    assert_eq!(rest, format!("sim: last\n{history}sim: end\n"));
    let chat = finish(chat).await;
    assert_eq!(chat.code, Some(0), "{chat:?}");
    assert_eq!(chat.stderr.matches("restarted").count(), 2, "{chat:?}");
}

/// Starts a daemon process with the scripted engine, and waits until it is ready.
async fn start_daemon(bus: &PrivateBus) -> Child {
    let daemon = Command::new(env!("CARGO_BIN_EXE_gangliond"))
        .args(["--bus", bus.text(), "--sim"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("gangliond runs");
    until(async || {
        let status = run(&["--bus", bus.text(), "status", "--json"]).await;
        status.stdout.contains(r#""state": "ready""#)
    })
    .await;
    daemon
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_how_to_continue() {
    let empty = PrivateBus::start();
    let ready = Daemon::start("").await;
    let full = Daemon::with("", 0, BusConfig::default()).await;
    let breaking = Daemon::start("fail_after=1").await;
    let failed = Daemon::start("load_error=no such file; set model.path").await;
    let mut status = failed.engine.status();
    eventually(status.wait_for(|status| status.state == State::Failed))
        .await
        .expect("the engine lives");
    let cases: [(&str, &[&str], i32, &str); 9] = [
        (empty.text(), &["frobnicate"], 2, "frobnicate"),
        ("nonsense", &["status"], 2, "nonsense"),
        ("unix:path=/nonexistent", &["status"], 69, "/nonexistent"),
        (
            empty.text(),
            &["ask", "hi"],
            69,
            "systemctl status gangliond",
        ),
        (empty.text(), &["status"], 69, "systemctl status gangliond"),
        (
            ready.bus.text(),
            &["ask", "--temperature", "-1", "hi"],
            2,
            "temperature",
        ),
        (full.bus.text(), &["ask", "hi"], 75, "queue"),
        (breaking.bus.text(), &["ask", "hi"], 1, "not finite"),
        (failed.bus.text(), &["ask", "hi"], 78, "set model.path"),
    ];
    for (bus, arguments, code, message) in cases {
        let ended = run(&[&["--bus", bus], arguments].concat()).await;
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test]
async fn tokenize_ends_with_the_ids_of_plain_text() {
    if !needs::smollm2() {
        return;
    }
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let golden = golden("SmolLM2-135M-Instruct.Q4_1.gguf.golden.json");
    let golden = std::fs::read_to_string(golden).expect("golden data is in the repository");
    let golden: Value = serde_json::from_str(&golden).expect("golden data is JSON");
    let mut compared = 0;
    for case in golden["cases"].as_array().expect("it has cases") {
        let (Some(user), Some(ids)) = (case["user"].as_str(), case["plain_ids"].as_array()) else {
            continue;
        };
        let tokenized = run(&["tokenize", "--model", text(&model), "--", user]).await;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(
            tokenized.stdout.lines().last(),
            Some(ids.join(" ").as_str()),
            "{user:?}: {tokenized:?}"
        );
        compared += 1;
    }
    assert!(compared > 0, "the golden data has plain texts");
}

#[tokio::test]
async fn score_compares_with_a_reference_and_refuses_a_falsified_one() {
    let model = golden("tiny-qwen3");
    let reference = model.join("golden.json");
    let score = [
        "score",
        "--model",
        text(&model),
        "--backend",
        "cpu",
        "--kv",
        "f32",
    ];
    let honest = run(&[&score[..], &["--compare", text(&reference)]].concat()).await;
    assert_eq!(honest.code, Some(0), "{honest:?}");
    assert!(
        honest.stdout.contains("greedy tokens equal   192 of 192"),
        "{honest:?}"
    );

    // The verb's own output is a reference that it agrees with, until the reference changes.
    let scores = run(&[&score[..], &["--greedy", "4", text(&reference)]].concat()).await;
    let mut scores: Value = serde_json::from_str(&scores.stdout).expect("it prints JSON");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("scores.json");
    let compare = [&score[..], &["--compare", text(&file)]].concat();
    std::fs::write(&file, scores.to_string()).expect("it is written");
    let own = run(&compare).await;
    assert_eq!(own.code, Some(0), "{own:?}");

    let logprobs = scores["cases"][1]["token_logprobs"].as_array_mut();
    for logprob in logprobs.expect("there are some") {
        *logprob = (logprob.as_f64().expect("a number") - 0.5).into();
    }
    std::fs::write(&file, scores.to_string()).expect("it is written");
    let falsified = run(&compare).await;
    assert_eq!(falsified.code, Some(1), "{falsified:?}");
    assert!(
        falsified.stderr.contains("mean |delta logprob|"),
        "{falsified:?}"
    );

    scores["cases"][0]["input_ids"] = vec![1_000_000].into();
    std::fs::write(&file, scores.to_string()).expect("it is written");
    let foreign = run(&compare).await;
    assert_eq!(foreign.code, Some(65), "{foreign:?}");
    assert!(foreign.stderr.contains("1000000"), "{foreign:?}");
}

#[tokio::test]
async fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).await.stdout;
        for verb in [
            "ask",
            "chat",
            "status",
            "graph",
            "top",
            "pull",
            "models",
            "use",
            "setup",
            "doctor",
            "verify",
            "tokenize",
            "score",
            "bench",
            "completions",
        ] {
            assert!(script.contains(verb), "{shell}: {verb} is missing");
        }
    }
}
