//! The shipped interface XML is the contract: without its comments it equals what the daemon introspects, with annotations
//! for generators of code.

use std::fs;
use std::path::Path;

use ganglion::bus::{NAME, PATH};

use super::annotations::annotate;
use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};

const HEAD: &str = r#"<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
<node>
"#;

async fn introspect(client: &Client, path: &str, interface: &str) -> String {
    let introspectable = Some("org.freedesktop.DBus.Introspectable");
    let reply = client
        .connection
        .call_method(Some(NAME), path, introspectable, "Introspect", &())
        .await
        .unwrap();
    let xml: String = reply.body().deserialize().unwrap();
    let start = xml
        .find(&format!("  <interface name=\"{interface}\">"))
        .unwrap();
    let length = xml[start..].find("</interface>").unwrap() + "</interface>".len();
    let element = &xml[start..start + length];
    let lines: Vec<&str> = element.lines().map(str::trim_end).collect();
    format!("{HEAD}{}\n</node>\n", lines.join("\n"))
}

fn without_comments(xml: &str) -> String {
    let parts = xml
        .split("    <!--\n")
        .map(|part| part.split_once("    -->\n").map_or(part, |(_, rest)| rest));
    parts.collect()
}

/// The values of the property Features that its comment lists.
fn described_features(xml: &str) -> Vec<String> {
    let (before, _) = xml
        .split_once("<property name=\"Features\"")
        .expect("the property");
    let comment = before.rsplit("<!--\n").next().unwrap_or_default();
    let entries = comment
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('@'));
    entries
        .filter_map(|entry| Some(entry.split_once(": ")?.0.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_interfaces_are_those_of_the_daemon() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let session = client.manager.open_session(fields([])).await.unwrap();
    let (request, _stream) = ask(&client, "hello", fields([])).await.unwrap();
    for (name, path) in [
        ("Manager", PATH),
        ("Diagnostics", PATH),
        ("Session", session.as_str()),
        ("Request", request.as_str()),
    ] {
        let interface = format!("{NAME}.{name}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("config/interfaces")
            .join(format!("{interface}.xml"));
        let introspected = annotate(&introspect(&client, path, &interface).await);
        let shipped = fs::read_to_string(&file).expect("the shipped file");
        if name == "Manager" {
            let mut described = described_features(&shipped);
            let seeing = Daemon::start("images=1").await;
            let of_seeing = seeing.client().await.manager.features().await;
            assert_eq!(of_seeing.unwrap(), described);
            described.retain(|feature| feature != "images");
            assert_eq!(client.manager.features().await.unwrap(), described);
        }
        assert_eq!(
            without_comments(&shipped),
            introspected,
            "{} differs",
            file.display()
        );
    }
}

/// A daemon that opened what a caller names would open it with its own rights.
#[test]
fn no_method_takes_a_path() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/interfaces");
    let mut taken = Vec::new();
    for file in fs::read_dir(folder).expect("the interfaces") {
        let xml = fs::read_to_string(file.expect("an entry").path()).expect("a file");
        let arguments = xml.lines().filter(|line| line.contains("direction=\"in\""));
        let names = arguments.map(|line| line.split('"').nth(1).expect("a name").to_owned());
        taken.extend(names);
    }
    taken.sort();
    taken.dedup();
    // Texts for the model, numbers, the names of sessions, which have no slash, and options, of which none names a file
    // either: whoever adds one looks here.
    assert_eq!(
        taken,
        [
            "messages", "name", "offset", "options", "prompt", "reason", "text", "turns"
        ]
    );
}
