//! `ganglionctl openai`: the lines for clients, and its reports about the socket.

use std::os::unix::net::UnixListener;

use serde_json::Value;

use super::{run, run_as};
use crate::support::needs;

#[tokio::test]
async fn what_a_client_needs_is_printed_with_the_socket() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("openai.sock");
    let socket = path.to_str().expect("the path is UTF-8");
    let missing = run(&["openai", "--socket", socket]).await;
    assert_eq!(missing.code, Some(69), "{missing:?}");
    let remedy = format!("{socket} does not exist: start gangliond --http {socket}");
    assert!(missing.stderr.contains(&remedy), "{missing:?}");
    // They are there for a program that is written before the daemon runs.
    assert!(
        missing.stdout.contains(&format!("uds=\"{socket}\"")),
        "{missing:?}"
    );

    let _listener = UnixListener::bind(&path).expect("it listens");
    let json = run(&["openai", "--socket", socket, "--json"]).await;
    assert_eq!(json.code, Some(0), "{json:?}");
    let values: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    assert_eq!(values["socket"], socket);
    assert_eq!(values["base_url"], "http://localhost/v1");
    assert_eq!(values["usable"], true);
    assert_eq!(values["tcp"], serde_json::json!([]));

    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("it is written");
    let file = file.to_str().expect("the path is UTF-8");
    let wrong = run(&["openai", "--socket", file]).await;
    assert_eq!(wrong.code, Some(69), "{wrong:?}");
    assert!(wrong.stderr.contains("is not a socket"), "{wrong:?}");
}

#[tokio::test]
async fn a_socket_of_others_is_named() {
    if !needs::root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("openai.sock");
    let _listener = UnixListener::bind(&path).expect("it listens");
    let socket = path.to_str().expect("the path is UTF-8");
    let denied = run_as(65534, &["openai", "--socket", socket]).await;
    assert_eq!(denied.code, Some(77), "{denied:?}");
    assert!(denied.stderr.contains("you may not open"), "{denied:?}");
}
