//! Sessions and requests answer only the connection that made them.

use ganglion::bus::proxy::{DiagnosticsProxy, Info};
use ganglion::bus::{Error, NAME, PATH};
use zbus::{DBusError as _, OwnedObjectPath, Variant, fdo};

use super::policy::{Identity, NOBODY};
use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};
use crate::support::needs;
use crate::support::private_bus::GROUPS;
use crate::support::stream::Reader;

/// Checks that the call failed as for an unknown object.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    match result {
        Err(Error::Bus(zbus::Error::FDO(error)))
            if matches!(*error, fdo::Error::UnknownObject(_)) => {}
        other => panic!("not refused: {other:?}"),
    }
}

async fn all_properties(client: &Client, path: &OwnedObjectPath, interface: &str) -> Info {
    let properties = "org.freedesktop.DBus.Properties";
    let reply = client
        .connection
        .call_method(Some(NAME), path, Some(properties), "GetAll", &interface)
        .await;
    reply
        .expect("its owner asks")
        .body()
        .deserialize()
        .expect("it is a dictionary")
}

/// Returns the error of each kind of call to an object, without the path.
async fn answers(client: &Client, path: &str, interface: &str) -> Vec<[String; 2]> {
    let properties = Some("org.freedesktop.DBus.Properties");
    let connection = &client.connection;
    let name = Some(NAME);
    let all = [
        connection
            .call_method(name, path, Some(interface), "Close", &())
            .await,
        connection
            .call_method(name, path, Some(interface), "Cancel", &())
            .await,
        connection
            .call_method(name, path, Some(interface), "NoSuchMethod", &(1u32, "x"))
            .await,
        connection
            .call_method(name, path, properties, "Get", &(interface, "Turns"))
            .await,
        connection
            .call_method(name, path, properties, "Get", &(interface, "State"))
            .await,
        connection
            .call_method(name, path, properties, "GetAll", &interface)
            .await,
        connection
            .call_method(name, path, properties, "GetAll", &"no.such.interface")
            .await,
        connection
            .call_method(
                name,
                path,
                properties,
                "Set",
                &(interface, "Turns", Variant::from(1u32)),
            )
            .await,
        connection
            .call_method(
                name,
                path,
                Some("org.freedesktop.DBus.Introspectable"),
                "Introspect",
                &(),
            )
            .await,
    ];
    let error_of = |reply: zbus::Result<zbus::Message>| {
        let error = Error::from(reply.expect_err("it is refused"));
        let text = error.description().unwrap_or_default();
        [error.name().to_string(), text.replace(path, "PATH")]
    };
    all.into_iter().map(error_of).collect()
}

/// Returns a connection's view of a node.
pub(super) async fn below(client: &Client, path: &str) -> Vec<String> {
    let introspectable = Some("org.freedesktop.DBus.Introspectable");
    let reply = client
        .connection
        .call_method(Some(NAME), path, introspectable, "Introspect", &())
        .await
        .expect("it is introspected");
    let xml: String = reply.body().deserialize().expect("text");
    let names = xml.split("<node name=\"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next());
    names.map(str::to_owned).collect()
}

/// Calls to another connection's object fail as if it did not exist.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_connection_looks_unknown() {
    let daemon = Daemon::start("first=3600s").await;
    let (owner, thief) = (daemon.client().await, daemon.client().await);
    let session = owner.manager.open_session(fields([])).await.unwrap();
    let (request, _stream) = ask(&owner, "mine", fields([])).await.unwrap();
    for (path, kind) in [(session.as_str(), "Session"), (request.as_str(), "Request")] {
        let interface = format!("{NAME}.{kind}");
        let (node, _) = path.rsplit_once('/').expect("a node");
        let theirs = answers(&thief, path, &interface).await;
        for id in ["7", "007", "x/y", "18446744073709551615"] {
            let missing = format!("{node}/{id}");
            assert_eq!(answers(&thief, &missing, &interface).await, theirs, "{id}");
        }
        let unknown = "org.freedesktop.DBus.Error.UnknownObject";
        for [name, text] in theirs {
            assert_eq!(name, unknown);
            assert!(
                text.starts_with("PATH is not an object of this connection"),
                "{text}"
            );
        }
    }
}

/// Each connection finds its own objects, and their names reveal nothing of others.
#[tokio::test(flavor = "multi_thread")]
async fn introspection_shows_a_connection_its_own_objects() {
    let daemon = Daemon::start("first=3600s").await;
    let (one, other) = (daemon.client().await, daemon.client().await);
    let [sessions, requests] = ["session", "request"].map(|kind| format!("{PATH}/{kind}"));
    let mut own = Vec::new();
    for _ in 0..2 {
        own.push(one.manager.open_session(fields([])).await.unwrap());
    }
    let (request, _stream) = ask(&one, "mine", fields([])).await.unwrap();
    let names = |paths: &[OwnedObjectPath]| {
        let name = |path: &OwnedObjectPath| path.rsplit('/').next().expect("a name").to_owned();
        let mut names: Vec<_> = paths.iter().map(name).collect();
        names.sort();
        names
    };
    let mut found = below(&one, &sessions).await;
    found.sort();
    assert_eq!(found, names(&own));
    assert_eq!(below(&one, &requests).await, names(&[request]));
    for node in [&sessions, &requests] {
        assert_eq!(below(&other, node).await, Vec::<String>::new());
    }
    let above = [
        ("/", vec!["org"]),
        ("/org", vec!["ganglion"]),
        ("/org/ganglion", vec!["Llm1"]),
        (PATH, vec![]),
    ];
    assert_eq!(below(&one, PATH).await, ["session", "request"]);
    for (path, names) in above {
        assert_eq!(below(&other, path).await, names, "{path}");
    }
    // Two consecutive names are far apart.
    let numbers = names(&own)
        .into_iter()
        .map(|name| name.parse::<u64>().expect("a number"));
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers[0].abs_diff(numbers[1]) > 1 << 20, "{numbers:?}");
    one.session(own.remove(0)).await.close().await.unwrap();
    assert_eq!(below(&one, &sessions).await, names(&own));
}

/// A member reads the daemon's speed. An operator also reads the times of the last prompt and answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_request_is_for_operators() {
    const INTERFACE: &str = "org.ganglion.Llm1.Diagnostics";
    if !needs::programs(&["busctl"]) || !needs::root() {
        return;
    }
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let (_, stream) = ask(&client, "one two three", fields([])).await.unwrap();
    Reader::new(stream).answer().await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    let timing = diagnostics.timing().await.unwrap();
    assert!(timing.contains_key("prompt_tokens"), "{timing:?}");
    let address = daemon.bus.text().to_owned();
    let read = |members: &'static [&'static str; 2], arguments: &'static [&'static str]| {
        let address = address.clone();
        let [(_, _, member), _] = GROUPS;
        let call = move || {
            let caller = Identity {
                user: NOBODY,
                groups: vec![member],
            };
            let done = caller.call(&address, *members, arguments);
            assert!(done.status.success(), "{done:?}");
            String::from_utf8(done.stdout).expect("text")
        };
        tokio::task::spawn_blocking(call)
    };
    for (method, arguments) in [
        (
            &["org.freedesktop.DBus.Properties", "Get"],
            &["ss", INTERFACE, "Timing"][..],
        ),
        (
            &["org.freedesktop.DBus.Properties", "GetAll"],
            &["s", INTERFACE][..],
        ),
    ] {
        let said = read(method, arguments).await.unwrap();
        assert!(said.contains("step_p50_us"), "{said}");
        for secret in [
            "prompt_tokens",
            "completion_tokens",
            "queue_us",
            "finish_reason",
        ] {
            assert!(!said.contains(secret), "{said}");
        }
    }
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
    assert_eq!(all_properties(&owner, &path, interface).await.len(), 5);
    assert_eq!(Reader::new(stream).answer().await.text, "sim: mine mine");
}
