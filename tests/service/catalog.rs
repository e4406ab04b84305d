//! The table of events and the catalog that explains them tell the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use ganglion::journal::EVENTS;
use tracing::Level;

const CATALOG: &str = include_str!("../../systemd/gangliond.catalog");

/// Message id to entry.
fn entries() -> BTreeMap<&'static str, &'static str> {
    let entries: Vec<_> = CATALOG.split("\n-- ").skip(1).collect();
    let by_id: BTreeMap<_, _> = entries
        .iter()
        .map(|entry| entry.split_once('\n').expect("an id and a text"))
        .collect();
    assert_eq!(by_id.len(), entries.len(), "no id twice");
    by_id
}

/// The names between two `@`.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split('@').skip(1).step_by(2)
}

#[test]
fn every_event_has_an_entry_and_every_entry_an_event() {
    let events: BTreeSet<_> = EVENTS.iter().map(|event| event.message_id).collect();
    assert_eq!(events.len(), EVENTS.len(), "no id twice");
    assert_eq!(events, entries().into_keys().collect());
    for id in events {
        let is_hex = id
            .bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        assert!(id.len() == 32 && is_hex, "{id} is 128 bits");
    }
}

#[test]
fn entries_say_what_to_do_and_name_only_fields_of_their_event() {
    let entries = entries();
    for event in EVENTS {
        let entry = entries[event.message_id];
        let name = event.name;
        assert!(entry.starts_with("Subject: "), "{name}");
        assert_eq!(
            event.level <= Level::WARN,
            entry.contains("\nWhat to do: "),
            "{name}: a remedy if and only if something is wrong"
        );
        for field in references(entry) {
            assert!(
                event
                    .fields
                    .iter()
                    .any(|known| known.to_uppercase() == field),
                "{name} has no field {field}"
            );
        }
    }
}

#[test]
fn the_journal_accepts_the_catalog() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = root.path().join("usr/lib/systemd/catalog");
    fs::create_dir_all(&folder).expect("a folder");
    fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).expect("a folder");
    fs::write(folder.join("gangliond.catalog"), CATALOG).expect("the catalog is written");
    let journalctl = |action: &str| {
        let done = Command::new("journalctl")
            .arg(format!("--root={}", root.path().display()))
            .arg(action)
            .output()
            .expect("journalctl runs");
        let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && complaint.is_empty(), "{complaint}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    journalctl("--update-catalog");
    let listed = journalctl("--list-catalog");
    assert_eq!(listed.lines().count(), EVENTS.len(), "{listed}");
}
