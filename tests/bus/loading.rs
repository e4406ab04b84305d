//! The bus name exists before the model is loaded: requests wait for the model, and fail if the load fails.

use ganglion::bus::Error;
use ganglion::engine::FinishReason;
use zbus::Variant;

use super::{ask, fields};
use crate::support::daemon::{Daemon, until};
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_the_model() {
    let daemon = Daemon::start("load=2s").await;
    let client = daemon.client().await;
    assert_eq!(client.manager.state().await.unwrap(), "loading");
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    let (_, by_session) = session.send("a b", fields([])).await.unwrap();
    let (_, at_once) = ask(&client, "c d", fields([])).await.unwrap();
    let (text, _) = client.manager.complete("e f", fields([])).await.unwrap();
    assert_eq!(text, "sim: e f");
    assert_eq!(Reader::new(by_session).answer().await.text, "sim: a b");
    assert_eq!(Reader::new(at_once).answer().await.text, "sim: c d");
    assert_eq!(client.manager.state().await.unwrap(), "ready");
    assert_eq!(client.manager.backend().await.unwrap(), "sim");
    let model = client.manager.model().await.unwrap();
    assert_eq!(*model["architecture"], Variant::from("sim"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_fails_all_requests() {
    let daemon = Daemon::start("load=2s,load_error=no such file: m.gguf").await;
    let client = daemon.client().await;
    let (_, waiting) = ask(&client, "a b", fields([])).await.unwrap();
    let answer = Reader::new(waiting).answer().await;
    assert_eq!(answer.reason, FinishReason::Error);
    let (name, message) = answer.error.unwrap();
    assert_eq!(name, "org.ganglion.Llm1.Error.NotReady");
    assert!(message.contains("m.gguf"), "{message}");

    until(async || client.manager.state().await.unwrap() == "failed").await;
    assert!(
        client
            .manager
            .state_detail()
            .await
            .unwrap()
            .contains("m.gguf")
    );
    match ask(&client, "late", fields([])).await {
        Err(Error::NotReady(message)) => assert!(message.contains("m.gguf"), "{message}"),
        other => panic!("{other:?}"),
    }
}
