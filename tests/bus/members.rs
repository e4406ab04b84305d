//! Calls in every form that the D-Bus specification allows: without an interface, or with an empty one for properties.
//! Writes of properties fail.

use ganglion::bus::proxy::Info;
use ganglion::bus::{Error, NAME, PATH};
use roxmltree::{Document, ParsingOptions};
use serde::Serialize;
use zbus::{DBusError as _, Message, OwnedVariant, Type, Variant};

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

async fn call(
    client: &Client,
    path: &str,
    interface: Option<&str>,
    method: &str,
    body: &(impl Serialize + Type),
) -> Result<Message, [String; 2]> {
    let called = client
        .connection
        .call_method(Some(NAME), path, interface, method, body);
    called.await.map_err(|error| {
        let error = Error::from(error);
        let text = error.description().unwrap_or_default().to_owned();
        let name = error.name().to_string();
        [name.rsplit('.').next().expect("a name").to_owned(), text]
    })
}

/// Returns the properties of each of the daemon's own interfaces at a path.
async fn properties(client: &Client, path: &str) -> Vec<(String, Vec<String>)> {
    let xml = call(client, path, None, "Introspect", &())
        .await
        .expect("introspection");
    let xml: String = xml.body().deserialize().expect("text");
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&xml, options).expect("XML");
    let interfaces = document
        .descendants()
        .filter(|node| node.has_tag_name("interface"));
    let name = |node: roxmltree::Node<'_, '_>| node.attribute("name").expect("a name").to_owned();
    let each = interfaces.map(|interface| {
        let members = interface
            .children()
            .filter(|node| node.has_tag_name("property"));
        (name(interface), members.map(name).collect::<Vec<_>>())
    });
    each.filter(|(_, properties)| !properties.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_is_found_without_its_interface() {
    let daemon = Daemon::start("").await;
    let (client, other) = (daemon.client().await, daemon.client().await);
    let options = || fields([("max_tokens", 3u32.into())]);
    let reply = call(&client, PATH, None, "Complete", &("hello", options()))
        .await
        .unwrap();
    let (text, _): (String, Info) = reply.body().deserialize().unwrap();
    assert_eq!(text, "sim: hello");

    let session = client.manager.open_session(fields([])).await.unwrap();
    call(&client, &session, None, "Submit", &("hello", options()))
        .await
        .unwrap();
    let (request, _stream) = ask(&client, "hello", fields([])).await.unwrap();
    call(&client, &request, None, "Cancel", &()).await.unwrap();
    for path in [PATH, &session, "/", "/elsewhere"] {
        call(&client, path, None, "Ping", &()).await.unwrap();
    }

    for (path, method) in [
        (PATH, "Rewind"),
        (PATH, "Generated"),
        (session.as_str(), "Cancel"),
        ("/", "Complete"),
    ] {
        let [name, text] = call(&client, path, None, method, &()).await.unwrap_err();
        assert_eq!(name, "UnknownMethod", "{path} {method}: {text}");
        assert!(text.contains(method), "{text}");
    }
    for (client, path) in [(&other, session.as_str()), (&client, "/elsewhere")] {
        let [name, text] = call(client, path, None, "Close", &()).await.unwrap_err();
        assert_eq!(name, "UnknownObject", "{path}: {text}");
    }
    call(&client, &session, None, "Close", &()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_are_read_only_and_found_without_their_interface() {
    let daemon = Daemon::start("first=3600s").await;
    let (client, other) = (daemon.client().await, daemon.client().await);
    let session = client.manager.open_session(fields([])).await.unwrap();
    let (request, _stream) = ask(&client, "hello", fields([])).await.unwrap();
    let mut seen = 0;
    for path in [PATH, session.as_str(), request.as_str()] {
        let interface = Some(PROPERTIES);
        let all = call(&client, path, interface, "GetAll", &"").await.unwrap();
        let mut all: Info = all.body().deserialize().unwrap();
        for (of, properties) in properties(&client, path).await {
            for property in &properties {
                seen += 1;
                for of in ["", &of] {
                    let value = Variant::from(1u32);
                    let set = call(&client, path, interface, "Set", &(of, property, value)).await;
                    assert_eq!(set.unwrap_err()[0], "PropertyReadOnly", "{path} {property}");
                }
                let one = call(&client, path, interface, "Get", &("", property))
                    .await
                    .unwrap();
                let one: OwnedVariant = one.body().deserialize().unwrap();
                let among = all.remove(property).expect("GetAll has it");
                assert_eq!(one.value_signature(), among.value_signature(), "{property}");
            }
            let none = (&*of, "None", Variant::from(1u32));
            let none = call(&client, path, interface, "Set", &none).await;
            assert_eq!(none.unwrap_err()[0], "UnknownProperty");
        }
        assert!(all.is_empty(), "{path}: {all:?}");
        let none = call(&client, path, interface, "Get", &("", "None")).await;
        assert_eq!(none.unwrap_err()[0], "UnknownProperty");
        let wrong = ("no.such.Interface", "State", Variant::from(1u32));
        let wrong = call(&client, path, interface, "Set", &wrong).await;
        assert_eq!(wrong.unwrap_err()[0], "UnknownInterface");
    }
    assert!(seen > 20, "{seen}");
    for path in [session.as_str(), request.as_str()] {
        let stolen = call(&other, path, Some(PROPERTIES), "GetAll", &"").await;
        assert_eq!(stolen.unwrap_err()[0], "UnknownObject");
    }
    let none = call(&client, "/org", Some(PROPERTIES), "GetAll", &"")
        .await
        .unwrap();
    let none: Info = none.body().deserialize().unwrap();
    assert!(none.is_empty());
}
