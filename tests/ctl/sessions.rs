//! `sessions`: what is kept, by name.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run;
use crate::support::daemon::Client;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

/// The one file below a folder.
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
    assert_eq!(held.code, Some(75), "{held:?}");
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

    // Something changes its file: it is set aside, which is told until it is deleted.
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
