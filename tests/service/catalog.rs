//! The table of events and the journal catalog agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use ganglion::journal::{self, EVENTS, FIELDS};
use ganglion::telemetry::{FinishReason, Receipt, Usage};
use tracing::Level;

use crate::support::journal::Journal;

use crate::support::needs;

const CATALOG: &str = include_str!("../../systemd/gangliond.catalog");

/// Message ids and their entries.
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
fn entries_have_a_remedy_and_name_only_fields_of_their_event() {
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
fn every_field_is_described_and_every_description_is_of_a_field() {
    let mut used: Vec<_> = EVENTS
        .iter()
        .flat_map(|event| event.fields)
        .map(|field| field.to_uppercase())
        .collect();
    used.sort();
    used.dedup();
    let described: Vec<_> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(used, described, "in the order of their names");
}

/// An event that names a caller is caused by the caller, and could fill the journal without a rate.
#[test]
fn every_event_that_names_a_caller_has_a_rate() {
    for event in EVENTS {
        let names_one = event.fields.contains(&"client_uid");
        let is_summary = event.name == "events_left_out";
        if names_one && !is_summary {
            assert!(event.by_caller, "{} needs by (client_uid)", event.name);
        }
    }
}

#[test]
fn the_journal_accepts_the_catalog() {
    if !needs::programs(&["journalctl"]) {
        return;
    }
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

/// Returns the fields of an event that `report` writes on this thread, without a queue.
fn fields_of(report: impl FnOnce()) -> BTreeMap<&'static str, String> {
    let journal = Journal::default();
    journal.during(report);
    let mut events = journal.take();
    let event = events.pop().expect("an event");
    assert!(events.is_empty(), "only one");
    event
}

fn row(name: &str) -> &'static journal::Event {
    let found = EVENTS.iter().find(|event| event.name == name);
    found.expect("a row")
}

#[test]
fn an_event_carries_its_id_and_the_fields_of_its_row() {
    let receipt = Receipt {
        reason: FinishReason::Stop,
        usage: Usage {
            completion_tokens: 7,
            first_token_us: 1234,
            joules: Some(2.5),
            ..Usage::default()
        },
    };
    let request = journal::Request {
        id: 3,
        session: Some(5),
        client: ":1.9",
        client_uid: 1000,
        model: "tiny",
    };
    let mut fields = fields_of(|| journal::request_finished(&request, &receipt));
    let row = row("request_finished");
    assert_eq!(fields.remove("message_id").as_deref(), Some(row.message_id));
    let message = fields.remove("message").expect("a message");
    assert!(
        message.starts_with("request 3: 7 tokens (stop)"),
        "{message}"
    );
    let expected: BTreeSet<_> = row.fields.iter().copied().collect();
    assert_eq!(fields.keys().copied().collect::<BTreeSet<_>>(), expected);
    for (field, value) in [
        ("request_id", "3"),
        ("session", "5"),
        ("client", ":1.9"),
        ("client_uid", "1000"),
        ("model", "tiny"),
        ("ttft_us", "1234"),
        ("tokens", "7"),
        ("joules", "2.50"),
        ("finish_reason", "stop"),
    ] {
        assert_eq!(fields[field], value, "{field}");
    }
}

#[test]
fn a_field_without_a_value_is_left_out() {
    let fields = fields_of(|| journal::graph_failed("refused", None, 4, "invalid", 1));
    assert!(!fields.contains_key("cuda_error"), "{fields:?}");
    assert_eq!(fields["kv_epoch"], "4");
    let fields =
        fields_of(|| journal::graph_failed("refused", Some("CUDA_ERROR_UNKNOWN"), 4, "valid", 1));
    assert_eq!(fields["cuda_error"], "CUDA_ERROR_UNKNOWN");
}
