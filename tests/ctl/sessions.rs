//! `sessions`: the stored sessions, by name.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{run, run_with_input};
use crate::support::daemon::Client;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

/// Returns the single file below a folder.
fn kept(folder: &Path) -> PathBuf {
    let inside = std::fs::read_dir(folder).expect("it is a folder");
    let path = inside.map(|one| one.expect("it is read").path()).next();
    let path = path.expect("there is something");
    if path.is_dir() { kept(&path) } else { path }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_shown_exported_and_deleted() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!("sessions.directory = '{}/s'\n", folder.path().display());
    let daemon = Process::start(&bus, "", &config).await;
    let sessions = async |arguments: &[&str]| {
        let arguments = [&["--bus", bus.text(), "sessions"], arguments].concat();
        run(&arguments).await
    };
    let none = sessions(&[]).await;
    assert_eq!((none.code, &*none.stdout), (Some(0), ""));

    let client = Client::connect(&bus).await;
    let named = [("name", "tour".into())].into();
    let path = client.manager.open_session(named).await.unwrap();
    let session = client.session(path).await;
    let (_, stream) = session.send("hello", [].into()).await.unwrap();
    Reader::new(stream).answer().await;
    let held = sessions(&["show", "tour"]).await;
    assert_eq!(held.stdout, "user: hello\nassistant: sim: hello\n");
    assert_eq!(session.turns().await.unwrap(), 1, "its holder keeps it");
    session.close().await.unwrap();

    let listed = sessions(&["--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed["tour"]["turns"], 1);
    let listed = sessions(&[]).await;
    assert!(listed.stdout.contains("tour"), "{listed:?}");
    let shown = sessions(&["show", "tour"]).await;
    assert_eq!(shown.stdout, "user: hello\nassistant: sim: hello\n");
    let exported = sessions(&["export", "tour"]).await;
    let exported: Value = serde_json::from_str(&exported.stdout).expect("JSON");
    assert_eq!(exported["messages"][1]["content"], "sim: hello");

    // A damaged file is set aside, and listed until it is deleted.
    let kept = kept(folder.path());
    let mut bytes = std::fs::read(&kept).expect("it is there");
    bytes[40] ^= 1;
    std::fs::write(&kept, bytes).expect("it is changed");
    drop(daemon);
    let _daemon = Process::start(&bus, "", &config).await;
    let gone = sessions(&["show", "tour"]).await;
    assert_eq!(gone.code, Some(65), "{gone:?}");
    assert!(gone.stderr.contains("tour.1.damaged"), "{gone:?}");
    let opened = client
        .manager
        .open_session([("name", "tour".into())].into())
        .await;
    let session = client.session(opened.expect("it begins anew")).await;
    session.close().await.unwrap();
    let listed = sessions(&[]).await;
    assert!(
        listed.stdout.contains("damaged: ") && listed.stdout.contains("tour.1.damaged"),
        "{listed:?}"
    );
    let missing = sessions(&["show", "other"]).await;
    assert_eq!(missing.code, Some(65), "{missing:?}");
    let deleted = sessions(&["delete", "tour"]).await;
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    let none = sessions(&["--json"]).await;
    assert_eq!(none.stdout.trim(), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_continues_the_session_that_it_names() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!("sessions.directory = '{}/s'\n", folder.path().display());
    let daemon = Process::start(&bus, "context=12", &config).await;
    let system = folder.path().join("system.txt");
    std::fs::write(&system, "be brief\n").expect("it is written");
    let system = system.display().to_string();
    let ask = async |options: &[&str], text: &str| {
        let ask = ["--bus", bus.text(), "ask", "--quiet", "--session", "tour"];
        run(&[&ask[..], options, &[text]].concat()).await
    };
    let shown = async || {
        let shown = run(&["--bus", bus.text(), "sessions", "show", "tour"]).await;
        shown.stdout
    };
    let asked = ask(&["--system-file", &system], "one").await;
    assert_eq!((asked.code, &*asked.stdout), (Some(0), "sim: one\n"));
    let asked = ask(&["--system", "be brief"], "two").await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let other = ask(&["--system", "be long"], "three").await;
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("system"), "{other:?}");
    let said =
        |text: &str, note: &str| format!("user{note}: {text}\nassistant{note}: sim: {text}\n");
    let both = said("one", "") + &said("two", "");
    assert_eq!(shown().await, format!("system: be brief\n{both}"));

    // A session that a command creates drops its oldest turns. A session that a program created does not.
    let asked = ask(&[], "three four").await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let all = said("one", " (dropped)") + &said("two", "") + &said("three four", "");
    assert_eq!(shown().await, format!("system: be brief\n{all}"));
    let strict = [("name", "strict".into())].into();
    let client = Client::connect(&bus).await;
    let path = client.manager.open_session(strict).await.unwrap();
    let strict = client.session(path).await;
    let long = [
        "ask",
        "--quiet",
        "--session",
        "strict",
        "one two three four",
    ];
    let long = [&["--bus", bus.text()], &long[..]].concat();
    let held = run(&long).await;
    assert_eq!(held.code, Some(75), "{held:?}");
    let taken = run(&[&long[..], &["--take"]].concat()).await;
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(strict.turns().await.is_err(), "it was taken");
    let full = run(&long).await;
    assert_eq!(full.code, Some(65), "{full:?}");
    let misused = run(&["--bus", bus.text(), "ask", "--overflow", "error", "a"]).await;
    assert_eq!(misused.code, Some(2), "{misused:?}");

    drop(daemon);
    let _daemon = Process::start(&bus, "", &config).await;
    assert_eq!(shown().await, format!("system: be brief\n{all}"));
}

/// However often its file is compacted.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_the_turns_that_were_dropped() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!("sessions.directory = '{}/s'\n", folder.path().display());
    let _daemon = Process::start(&bus, "context=40", &config).await;
    let word = "word".repeat(100);
    let lines: Vec<_> = (0..60).map(|n| format!("{n} {word}")).collect();
    let chat = ["--bus", bus.text(), "chat", "--session", "tour"];
    let chat = run_with_input(&chat, &(lines.join("\n") + "\n")).await;
    assert_eq!(chat.code, Some(0), "{chat:?}");
    let exported = run(&["--bus", bus.text(), "sessions", "export", "tour"]).await;
    let exported: Value = serde_json::from_str(&exported.stdout).expect("JSON");
    let messages = exported["messages"].as_array().expect("an array");
    let by_user = messages.iter().filter(|it| it["role"] == "user");
    let texts: Vec<_> = by_user.filter_map(|it| it["content"].as_str()).collect();
    assert_eq!(texts, lines);
    let dropped = messages.iter().take_while(|it| it["dropped"] == true);
    let dropped = dropped.count();
    assert!(dropped > 80 && dropped < messages.len(), "{dropped}");
    let kept = kept(&folder.path().join("s"));
    let bytes = std::fs::metadata(kept).expect("it is there").len();
    assert!(bytes > 16 << 10, "{bytes}");

    // A program that holds the session, and one that continues from the export.
    let file = folder.path().join("tour.json");
    std::fs::write(&file, exported.to_string()).expect("it is written");
    let typed = format!("/load {}\n/history\n", file.display());
    let loaded = run_with_input(&["--bus", bus.text(), "chat"], &typed).await;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    let questions = loaded.stdout.matches("user: ").count();
    assert_eq!(questions, texts.len() - dropped / 2, "{loaded:?}");
}
