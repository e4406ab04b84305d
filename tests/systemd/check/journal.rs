//! Compares the table of events with the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::stdin;

use ganglion::journal::{EVENTS, Event};
use serde_json::Value;

use crate::Failed;

pub(crate) fn print_id(name: &str) -> Result<(), Failed> {
    let event = EVENTS.iter().find(|event| event.name == name);
    let event = event.ok_or_else(|| format!("no event is named {name:?}"))?;
    println!("{}", event.message_id);
    Ok(())
}

pub(crate) fn print_names() {
    for event in EVENTS {
        println!("{}", event.name);
    }
}

/// Ignores entries of other programs. Each entry of the daemon must have the level and the source of its event. Together, the entries
/// of an event must have every field of the table except `absent`. Prints the events that did not occur.
pub(crate) fn fields(absent: &[&str]) -> Result<(), Failed> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in stdin().lines() {
        let entry: Value = serde_json::from_str(&line?)?;
        // A text of several lines or with unprintable characters is an array of bytes.
        let has = |field: &str| match &entry[field] {
            Value::String(text) => !text.is_empty(),
            Value::Array(bytes) => !bytes.is_empty(),
            _ => false,
        };
        let Some(event) = EVENTS
            .iter()
            .find(|event| entry["MESSAGE_ID"] == event.message_id)
        else {
            continue;
        };
        let found = event
            .fields
            .iter()
            .filter(|field| has(&field.to_uppercase()));
        seen.entry(event.name).or_default().extend(found);
        let (name, wanted) = (event.name, priority(event));
        if entry["PRIORITY"] != wanted
            || entry["SYSLOG_IDENTIFIER"] != "gangliond"
            || !has("MESSAGE")
        {
            return Err(format!("{name} should have PRIORITY={wanted}: {entry}").into());
        }
    }
    for event in EVENTS {
        let Some(seen) = seen.get(event.name) else {
            println!("{}", event.name);
            continue;
        };
        let mut missing = event.fields.iter().filter(|field| !seen.contains(*field));
        if let Some(field) = missing.find(|field| !absent.contains(field)) {
            return Err(format!("{} was never reported with {field}", event.name).into());
        }
    }
    Ok(())
}

fn priority(event: &Event) -> &'static str {
    match event.level.as_str() {
        "ERROR" => "3",
        "WARN" => "4",
        "INFO" => "6",
        _ => "7",
    }
}
