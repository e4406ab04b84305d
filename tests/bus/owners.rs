//! Sessions and requests answer to the connection that made them, and to no other.

use ganglion::bus::proxy::Info;
use ganglion::bus::{Error, NAME};
use zbus::OwnedObjectPath;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};
use crate::support::stream::Reader;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    match result {
        Err(Error::NotOwner(message)) => assert!(message.contains("another"), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

async fn all_properties(client: &Client, path: &OwnedObjectPath, interface: &str) -> Info {
    let reply = client
        .connection
        .call_method(
            Some(NAME),
            path,
            Some("org.freedesktop.DBus.Properties"),
            "GetAll",
            &interface,
        )
        .await;
    // An error would do as well.
    reply.map_or_else(
        |_| Info::new(),
        |reply| reply.body().deserialize().expect("it is a dictionary"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_is_out_of_reach() {
    let daemon = Daemon::start("").await;
    let (owner, thief) = (daemon.client().await, daemon.client().await);
    let path = owner.manager.open_session(fields([])).await.unwrap();
    let session = thief.session(path.clone()).await;
    refused(session.send("tell me", fields([])).await);
    refused(session.history().await);
    refused(session.rewind(1).await);
    refused(session.clear().await);
    refused(session.close().await);
    refused(session.turns().await);
    refused(session.context_used().await);
    refused(session.context_size().await);
    refused(session.busy().await);
    let interface = "org.ganglion.Llm1.Session";
    assert!(all_properties(&thief, &path, interface).await.is_empty());
    assert_eq!(all_properties(&owner, &path, interface).await.len(), 4);

    let own = owner.session(path).await;
    let (_, stream) = own.send("still here", fields([])).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, "sim: still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_another_is_out_of_reach() {
    let daemon = Daemon::start("tokens=3,first=300ms").await;
    let (owner, thief) = (daemon.client().await, daemon.client().await);
    let (path, stream) = ask(&owner, "mine", fields([])).await.unwrap();
    let request = thief.request(path.clone()).await;
    refused(request.cancel().await);
    refused(request.state().await);
    refused(request.result().await);
    refused(request.reading().await);
    refused(request.queue_position().await);
    refused(request.estimated_wait().await);
    let interface = "org.ganglion.Llm1.Request";
    assert!(all_properties(&thief, &path, interface).await.is_empty());
    assert_eq!(all_properties(&owner, &path, interface).await.len(), 5);
    assert_eq!(Reader::new(stream).answer().await.text, "sim: mine mine");
}
