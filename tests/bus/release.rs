//! `Manager.Release`: the state is "idle" afterwards, and the next request has the model loaded.

use std::time::Duration;

use futures_util::StreamExt as _;
use ganglion::bus::{Error, NAME, PATH};
use zbus::fdo::PropertiesProxy;

use super::{ask, fields};
use crate::support::daemon::{Daemon, eventually, until};
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn a_released_model_is_loaded_for_the_next_request() {
    let daemon = Daemon::start("load=100ms").await;
    let client = daemon.client().await;
    until(async || client.manager.state().await.unwrap() == "ready").await;
    let properties = PropertiesProxy::new(&client.connection, NAME, PATH)
        .await
        .unwrap();
    // Not the proxy's stream of the property, which leaves out all values but the last.
    let mut signals = properties.receive_properties_changed().await.unwrap();
    client.manager.release().await.expect("nothing runs");
    assert_eq!(client.manager.state().await.unwrap(), "idle");
    client.manager.release().await.expect("it is released");
    let path = client.manager.open_session(fields([])).await.unwrap();
    let session = client.session(path).await;
    assert_eq!(client.manager.state().await.unwrap(), "idle");
    let (_, stream) = session.send("a b", fields([])).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, "sim: a b");
    assert_eq!(client.manager.state().await.unwrap(), "ready");
    let mut seen: Vec<String> = Vec::new();
    let states = async {
        // The signal of the first load may come late.
        while !seen.ends_with(&["idle", "loading", "ready"].map(String::from)) {
            let signal = signals.next().await.expect("a change");
            let args = signal.args().unwrap();
            let state = args.changed_properties.get("State");
            seen.extend(state.map(|state| String::try_from(state.clone()).expect("a text")));
        }
    };
    eventually(states).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_answers_is_not_released() {
    let daemon = Daemon::start("tokens=1000,delay=10ms").await;
    let client = daemon.client().await;
    let (_, stream) = ask(&client, "a", fields([])).await.unwrap();
    match client.manager.release().await {
        Err(Error::Busy(why)) => assert!(why.starts_with("1 requests wait or"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.manager.state().await.unwrap(), "ready");
    drop(stream);
    let released = async {
        while client.manager.release().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    eventually(released).await;
}
