//! The shipped interface XML is the contract: it equals the daemon's introspection, including docs, plus annotations
//! for code generators.

use std::path::Path;
use std::{env, fs};

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
        // A change of the contract must be deliberate: GANGLION_WRITE_INTERFACES=1 writes the files.
        if env::var_os("GANGLION_WRITE_INTERFACES").is_some() {
            fs::write(&file, &introspected).unwrap();
        }
        let shipped = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(shipped, introspected, "{} differs", file.display());
    }
}

/// The daemon would open a caller's path with its own rights.
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
    // Arguments are texts for the model, numbers, names of sessions without a slash, and options. No option names a
    // file. Check this when you add one.
    assert_eq!(
        taken,
        [
            "messages", "name", "offset", "options", "prompt", "reason", "text", "turns"
        ]
    );
}
