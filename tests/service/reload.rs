//! Reloads of the configuration: all of it is applied, or nothing changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ganglion::bus::Error;
use ganglion::bus::proxy::{DiagnosticsProxy, Info, ManagerProxy, SessionProxy};
use ganglion::telemetry::FinishReason;
use nix::sys::signal::Signal;
use zbus::Variant;

use super::gangliond::{Gangliond, ask, client};
use crate::support::daemon::{eventually, until};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::stream::{Answer, Reader};
use crate::support::tiny_gguf;

/// Tokens of an answer that takes much longer than the load of a tiny model.
const LONG: u32 = 24;

/// Two tiny models that answer each text differently, and a slower one.
struct Models(tempfile::TempDir);

impl Models {
    fn new() -> Self {
        let models = Self(tempfile::tempdir().expect("a temporary folder"));
        models.write("one", "one", 0);
        models.write("two", "two", 77);
        models
    }

    fn write(&self, file: &str, name: &str, first_byte: usize) {
        let model = tiny_gguf::speaking(name, first_byte).file();
        std::fs::write(self.path(file), model).expect("the model is written");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(format!("{file}.gguf"))
    }

    fn smollm2() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    }
}

fn serving(model: &Path, more: &str) -> String {
    let model = model.display();
    format!("backend = 'cpu'\nmodel.path = '{model}'\nkv.context = 256\n{more}\n")
}

async fn say(manager: &ManagerProxy<'_>, conversation: &[(String, String)], tokens: u32) -> Reader {
    let messages: Vec<_> = conversation
        .iter()
        .map(|(role, text)| {
            let content = HashMap::from([("content", text.as_str().into())]);
            (role.as_str(), content)
        })
        .collect();
    let options = HashMap::from([("max_tokens", Variant::U32(tokens))]);
    let generated = manager.generate(&messages, options).await;
    let (_, stream) = generated.expect("it is accepted");
    Reader::new(stream)
}

async fn answer_to(manager: &ManagerProxy<'_>, text: &str) -> Answer {
    let conversation = [("user".to_owned(), text.to_owned())];
    say(manager, &conversation, 12).await.answer().await
}

async fn send(session: &SessionProxy<'_>, text: &str) -> Answer {
    let options = HashMap::from([("max_tokens", Variant::U32(12))]);
    let (_, stream) = session.send(text, options).await.expect("it is accepted");
    Reader::new(stream).answer().await
}

fn word<'a>(info: &'a Info, key: &str) -> &'a str {
    match &*info[key] {
        Variant::Str(word) => word,
        other => panic!("{key} is {other:?}"),
    }
}

fn number(info: &Info, key: &str) -> u64 {
    match *info[key] {
        Variant::U32(number) => number.into(),
        Variant::U64(number) => number,
        ref other => panic!("{key} is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_defaults_and_the_log_level_change_at_once() {
    let bus = PrivateBus::start();
    let config = |sessions: u32, tokens: u32, level: &str| {
        format!(
            "limits.sessions = {sessions}\nlimits.max_tokens = 100\nsampling.max_tokens = {tokens}\nlog.level = '{level}'\n"
        )
    };
    let daemon = Gangliond::scripted(&bus, "tokens=9", &config(1, 9, "info"));
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    manager.open_session(HashMap::new()).await.unwrap();
    let refused = manager.open_session(HashMap::new()).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");

    daemon.configure(&config(2, 3, "info"));
    manager.reload().await.unwrap();
    manager.open_session(HashMap::new()).await.unwrap();
    let answer = Reader::new(ask(&manager, "count").await.unwrap());
    assert_eq!(answer.answer().await.reason, FinishReason::Length);

    // An unreadable configuration changes nothing, and the error has its location.
    daemon.configure("limits.sessions = 9\nlimits.session = 1\n");
    let refused = manager.reload().await;
    let Err(Error::InvalidOption(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("gangliond.toml:2:"), "{why}");
    let refused = manager.open_session(HashMap::new()).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");

    // A signal also reloads, and simultaneous calls are answered in sequence.
    daemon.configure(&config(3, 9, "info"));
    daemon.signal(Signal::SIGHUP);
    until(async || manager.open_session(HashMap::new()).await.is_ok()).await;
    let reload = || manager.reload();
    let all = eventually(async { tokio::join!(reload(), reload(), reload()) }).await;
    assert!(matches!(all, (Ok(()), Ok(()), Ok(()))), "{all:?}");
    daemon.configure(&config(3, 9, "error"));
    manager.reload().await.unwrap();

    daemon.signal(Signal::SIGTERM);
    let end = daemon.end().await;
    assert_eq!(end.status, Some(0), "{}", end.journal);
    for line in [
        "info: the configuration was read again: the model stays",
        "warn: the configuration stays as it was: ",
        "info: the configuration was read again: nothing has changed",
    ] {
        assert!(end.journal.contains(line), "{line}: {}", end.journal);
    }
    assert!(!end.journal.contains("stopped"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_replaced_behind_the_running_request_and_sessions_go_on() {
    if !needs::smollm2() {
        return;
    }
    let (bus, models) = (PrivateBus::start(), Models::new());
    let long = [("user".to_owned(), "Count to fifty.".to_owned())];
    // With one row the second request waits, and the new model answers it.
    let daemon = Gangliond::start(
        bus.text(),
        &[],
        &serving(&Models::smollm2(), "engine.rows = 1"),
    );
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let connection = manager.inner().connection().clone();
    let diagnostics = DiagnosticsProxy::new(&connection).await.unwrap();
    let alone = say(&manager, &long, LONG).await.answer().await;
    let session = manager.open_session(HashMap::new()).await.unwrap();
    let session = SessionProxy::new(&connection, session).await.unwrap();
    send(&session, "Name one sea.").await;
    let before = diagnostics.decode_graph().await.unwrap();

    // It has just started when the other model is loaded.
    let mut running = say(&manager, &long, LONG).await;
    running.next().await.expect("a first token");
    let waiting = say(&manager, &long, LONG).await;
    daemon.configure(&serving(&models.path("one"), "kv.memory_mib = 3"));
    let (reloaded, ran) =
        eventually(async { tokio::join!(manager.reload(), running.rest()) }).await;
    reloaded.unwrap();
    assert!(alone.text.ends_with(&ran), "{ran:?} of {alone:?}");

    let model = manager.model().await.unwrap();
    assert_eq!(word(&model, "name"), "one");
    assert_eq!(
        waiting.answer().await.text,
        say(&manager, &long, LONG).await.answer().await.text
    );
    let graph = diagnostics.decode_graph().await.unwrap();
    for key in ["recordings", "launches", "eager_steps", "epoch"] {
        assert!(
            number(&graph, key) > number(&before, key),
            "{key}: {graph:?}"
        );
    }

    // The earlier messages are known, and prefilled again.
    let history = session.history().await.unwrap();
    assert_eq!(history.len(), 2);
    let answer = send(&session, "Is it salty?").await;
    let start = u32::try_from("<user: ".len()).unwrap();
    assert!(
        answer.usage.cached_tokens <= start,
        "what every conversation begins with may be there: {answer:?}"
    );
    assert_eq!(answer.error, None);
    let graph = diagnostics.decode_graph().await.unwrap();
    // On the CPU each conversation has its own addresses; a GPU's kernels look theirs up.
    assert!(word(&graph, "reason").starts_with("moved: kv moved"));
    let mut conversation = history;
    conversation.push(("user".into(), "Is it salty?".into()));
    let whole = say(&manager, &conversation, 12).await.answer().await;
    assert_eq!(answer.text, whole.text);
    assert_eq!(session.turns().await.unwrap(), 2);
    let answer = send(&session, "Why?").await;
    assert!(answer.usage.cached_tokens > 0, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_keeps_the_old_model_and_an_unchanged_model_is_not_loaded() {
    let (bus, models) = (PrivateBus::start(), Models::new());
    let one = serving(&models.path("one"), "");
    let daemon = Gangliond::start(bus.text(), &[], &one);
    daemon.await_notification("READY=1").await;
    let manager = client(&bus).await;
    let connection = manager.inner().connection().clone();
    let diagnostics = DiagnosticsProxy::new(&connection).await.unwrap();
    let first = answer_to(&manager, "hello").await;
    let epoch = async || number(&diagnostics.decode_graph().await.unwrap(), "epoch");
    let begun = epoch().await;

    let refused = async |config: &str| {
        daemon.configure(config);
        let error = manager.reload().await.expect_err("it cannot be used");
        assert_eq!(answer_to(&manager, "hello").await.text, first.text);
        error
    };
    let error = refused(&serving(&models.path("three"), "")).await;
    assert!(
        matches!(&error, Error::InvalidOption(why) if why.contains("three.gguf") && why.contains("No such file")),
        "{error:?}"
    );
    std::fs::write(models.path("three"), "no model").expect("it is written");
    let error = refused(&serving(&models.path("three"), "")).await;
    assert!(
        matches!(&error, Error::InvalidOption(why) if why.contains("three.gguf")),
        "{error:?}"
    );
    // A template that would end the process that compiles it.
    let deep = format!("{{{{ {}1{} }}}}", "[".repeat(99_999), "]".repeat(99_999));
    let deep = tiny_gguf::with_template(&deep).file();
    std::fs::write(models.path("three"), deep).expect("the model is written");
    let error = refused(&serving(&models.path("three"), "")).await;
    assert!(
        matches!(&error, Error::InvalidOption(why) if why.contains("the chat template")),
        "{error:?}"
    );
    let error = refused(&serving(
        &models.path("one"),
        "kv.memory_mib = 1\nmemory.reserve_mib = 1048576",
    ))
    .await;
    assert!(
        matches!(&error, Error::OutOfMemory(why) if why.contains("reserve 1048576") && why.contains("restart")),
        "{error:?}"
    );
    assert_eq!(epoch().await, begun + 4, "nothing but the four turns");

    daemon.configure(&one);
    manager.reload().await.unwrap();
    // Automatic values are determined when a model is loaded, by any reload.
    daemon.configure(&serving(
        &models.path("one"),
        "memory.reserve_mib = 1048576",
    ));
    manager.reload().await.unwrap();
    daemon.configure(&serving(&models.path("one"), "graph.mode = 'none'"));
    manager.reload().await.unwrap();
    let graph = diagnostics.decode_graph().await.unwrap();
    assert_eq!(
        (word(&graph, "mode"), word(&graph, "state")),
        ("none", "disabled")
    );
    assert_eq!(epoch().await, begun + 4, "nothing was loaded");
    assert_eq!(answer_to(&manager, "hello").await.text, first.text);

    // The same path with another file.
    models.write("one", "other", 77);
    manager.reload().await.unwrap();
    let model = manager.model().await.unwrap();
    assert_eq!(word(&model, "name"), "other");
    daemon.configure(&serving(&models.path("two"), "model.thinking = true"));
    manager.reload().await.unwrap();
    assert_ne!(answer_to(&manager, "hello").await.text, first.text);
}
