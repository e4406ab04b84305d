//! Startup failures, and their reports.

use std::collections::HashMap;

use futures_util::future::join_all;
use ganglion::bus::Error;
use ganglion::bus::proxy::{DiagnosticsProxy, Fields};
use nix::sys::signal::Signal;
use zbus::fdo;

use super::gangliond::{Gangliond, ask, client};
use crate::support::daemon::eventually;
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;
use crate::support::tiny_gguf;

const NOT_READY: &str = "org.ganglion.Llm1.Error.NotReady";
const NOWHERE: &str = "unix:path=/nonexistent/bus";
/// Room for the requests of one user.
const ROOM: &str = "[queue]\ncapacity = 64\n[limits]\nqueue_percent_per_user = 100\n";

fn hello() -> [(&'static str, Fields<'static>); 1] {
    [("user", HashMap::from([("content", "hello".into())]))]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_reported_to_systemd_and_ends_with_78() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::start(bus.text(), &[], "[kv]\ncontext = -1\n");
    let expected = format!(
        "{}:2:11: kv.context = -1: it must be a whole number from 0 to 1048576",
        daemon.config().display()
    );
    daemon
        .await_notification(&format!("STATUS={expected}"))
        .await;
    let end = daemon.end().await;
    assert_eq!(end.status, Some(78));
    assert!(
        end.journal.ends_with(&format!("error: {expected}\n")),
        "{}",
        end.journal
    );
}

/// The call that starts the daemon waits for the name, for much less than the callers' 25 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn the_call_that_starts_a_daemon_which_cannot_serve_learns_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gangliond.toml");
    let cases = [
        ("[kv]\ncontext = -1\n", "kv.context = -1: it must be"),
        ("", "model.path is not set"),
        ("model.path = 'missing.gguf'\n", "missing.gguf"),
    ];
    for (config, reason) in cases {
        std::fs::write(&file, config).expect("the configuration is written");
        let bus = PrivateBus::start();
        bus.activates(&format!("--config {}", file.display()));
        let client = client(&bus).await;
        let refused = match eventually(ask(&client, "hello")).await {
            // The request was accepted before the failure was known.
            Ok(stream) => Reader::new(stream).answer().await.error,
            Err(Error::NotReady(text)) => Some((NOT_READY.to_owned(), text)),
            Err(error) => panic!("{error}"),
        };
        let (name, text) = refused.expect("it is refused");
        assert_eq!(name, NOT_READY);
        assert!(text.contains(reason), "{text}");
    }
}

/// Every request before the failure is answered, however many there are.
#[tokio::test(flavor = "multi_thread")]
async fn every_caller_is_answered_when_the_daemon_ends() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(
        &bus,
        "load=2s,load_error=the file is cut off",
        "[queue]\ncapacity = 64\n",
    );
    daemon.await_notification("STATUS=loading").await;
    let manager = client(&bus).await;
    let asked = (0..32).map(|_| async {
        let stream = ask(&manager, "hello").await?;
        Ok::<_, Error>(Reader::new(stream).answer().await.error)
    });
    for answer in join_all(asked).await {
        let (name, text) = answer.expect("it is accepted").expect("it fails");
        assert_eq!((&*name, &*text), (NOT_READY, "the file is cut off"));
    }
    assert_eq!(daemon.end().await.status, Some(78));
}

/// Until the process has ended, every call gets the reason of the failure, and no other error.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_gets_the_reason_until_the_daemon_has_ended() {
    let bus = PrivateBus::start();
    let script = "load=500ms,load_error=the file is cut off";
    let daemon = Gangliond::scripted(&bus, script, ROOM);
    daemon.await_notification("STATUS=loading").await;
    let manager = client(&bus).await;
    let connection = manager.inner().connection();
    let diagnostics = DiagnosticsProxy::new(connection).await.expect("a proxy");
    let all = join_all((0..40).map(async |at| {
        let mut read = 0;
        loop {
            let none = HashMap::new();
            let answer = match at % 5 {
                0 => manager.complete("hello", none).await.map(drop),
                1 => manager.open_session(none).await.map(drop),
                2 => manager.reload().await,
                3 => diagnostics.reset_graph().await,
                _ => manager.submit(&hello(), none).await.map(drop),
            };
            match answer {
                Err(Error::NotReady(why)) if why == "the file is cut off" => read += 1,
                // The model is still loading.
                Err(Error::NotReady(why)) if why == "the model is still loading" => {}
                // The limits of simultaneous requests apply.
                Ok(()) | Err(Error::Busy(_) | Error::QuotaExceeded(_)) => {}
                // The daemon has ended.
                Err(Error::Bus(zbus::Error::FDO(error)))
                    if matches!(
                        *error,
                        fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_)
                    ) =>
                {
                    return read;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }));
    let read: Vec<u32> = eventually(all).await;
    assert!(read.iter().all(|read| *read > 0), "{read:?}");
    assert_eq!(daemon.end().await.status, Some(78));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_key_is_named() {
    let bus = PrivateBus::start();
    let end = Gangliond::start(bus.text(), &[], "").end().await;
    assert_eq!(end.status, Some(78));
    assert!(
        end.journal.contains("model.path is not set"),
        "{}",
        end.journal
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_model_is_named() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::start(bus.text(), &[], "model.path = 'missing.gguf'\n");
    let missing = daemon.config().with_file_name("missing.gguf");
    let end = daemon.end().await;
    assert_eq!(end.status, Some(78));
    let last = end.journal.lines().last().expect("it says something");
    assert!(last.contains(&*missing.to_string_lossy()), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_an_endless_chat_template_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("greedy.gguf");
    let greedy = tiny_gguf::with_template(
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    )
    .file();
    std::fs::write(&model, greedy).expect("the model is written");
    let bus = PrivateBus::start();
    let config = format!(
        "backend = 'cpu'\nmodel.path = '{}'\nkv.context = 256\n",
        model.display()
    );
    let end = Gangliond::start(bus.text(), &[], &config).end().await;
    assert_eq!(end.status, Some(78), "{}", end.journal);
    let last = end.journal.lines().last().expect("it says something");
    assert!(
        last.contains("the chat template was stopped: it "),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_callers_get_the_reason_of_a_failed_load() {
    let bus = PrivateBus::start();
    let daemon = Gangliond::scripted(&bus, "load=1s,load_error=the file is cut off", "");
    daemon.await_notification("STATUS=loading").await;
    let manager = client(&bus).await;
    let waiting = Reader::new(ask(&manager, "hello").await.unwrap());
    let answer = waiting.answer().await;
    let (name, text) = answer.error.expect("it fails");
    assert_eq!(name, NOT_READY);
    assert_eq!(text, "the file is cut off");
    let end = daemon.end().await;
    assert_eq!(end.status, Some(78));
    assert!(
        end.journal.ends_with("error: the file is cut off\n"),
        "{}",
        end.journal
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_names_the_first() {
    let bus = PrivateBus::start();
    let first = Gangliond::scripted(&bus, "", "");
    first.await_notification("READY=1").await;
    let end = Gangliond::scripted(&bus, "", "").end().await;
    assert_eq!(end.status, Some(69));
    let owner = format!("org.ganglion.Llm1 is owned by process {}", first.process());
    assert!(end.journal.contains(&owner), "{}", end.journal);
    first.signal(Signal::SIGTERM);
    assert_eq!(
        first.end().await.status,
        Some(0),
        "the first is not disturbed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_bus_ends_with_69() {
    let end = Gangliond::start(NOWHERE, &["--sim"], "").end().await;
    assert_eq!(end.status, Some(69));
    assert!(end.journal.contains("/nonexistent/bus"), "{}", end.journal);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_end_with_64() {
    let end = Gangliond::start(NOWHERE, &["--frobnicate"], "").end().await;
    assert_eq!(end.status, Some(64));
    assert!(end.journal.contains("--frobnicate"), "{}", end.journal);
    let end = Gangliond::start(NOWHERE, &["--version"], "").end().await;
    assert_eq!(end.status, Some(0));
    assert!(end.output.starts_with("gangliond "), "{}", end.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_config_starts_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    let model = in_folder("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let key = format!("model.path = '{model}'\n");
    let good = Gangliond::start(NOWHERE, &["--check-config"], &key);
    let ok = format!("{}: ok\n", good.config().display());
    let end = good.end().await;
    assert_eq!(
        (end.status, end.output, end.journal),
        (Some(0), ok, String::new())
    );

    let bad = Gangliond::start(NOWHERE, &["--check-config"], "[log]\nlevel = 'loud'\n");
    let end = bad.end().await;
    assert_eq!(end.status, Some(78));
    assert!(
        end.journal
            .contains(":2:9: log.level = \"loud\": it must be one of "),
        "{}",
        end.journal
    );

    // The model itself is wrong: the existing and the missing files.
    std::fs::write(in_folder("text.gguf"), "no model").expect("it is written");
    std::fs::write(
        in_folder("cut.gguf"),
        &tiny_gguf::with_vocabulary().file()[..200],
    )
    .expect("it is written");
    for (name, why) in [
        ("none.gguf", "No such file"),
        (
            "",
            "a folder with several GGUF files (cut.gguf, text.gguf, tiny.gguf)",
        ),
        ("text.gguf", "is a text, not a file of a model"),
        ("cut.gguf", "the file is damaged or incomplete"),
    ] {
        let key = format!("model.path = '{}'\n", in_folder(name));
        let end = Gangliond::start(NOWHERE, &["--check-config"], &key)
            .end()
            .await;
        assert_eq!(end.status, Some(78), "{name}: {end:?}");
        assert!(end.journal.contains(why), "{name}: {}", end.journal);
        assert!(end.journal.contains(&in_folder(name)), "{}", end.journal);
    }
}
