//! The table of events beside what the journal really holds.

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

/// Entries of other programs pass; ours have every field of their event, the level and who said it.
pub(crate) fn fields() -> Result<(), Failed> {
    for line in stdin().lines() {
        let entry: Value = serde_json::from_str(&line?)?;
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let id = text("MESSAGE_ID");
        let Some(event) = EVENTS.iter().find(|event| event.message_id == id) else {
            continue;
        };
        print!("{}", event.name);
        for field in event.fields {
            let field = field.to_uppercase();
            let value = text(&field);
            if value.is_empty() {
                return Err(format!("{} has no {field}: {entry}", event.name).into());
            }
            print!("\t{field}={value}");
        }
        println!();
        let wanted = priority(event);
        let found = text("PRIORITY");
        if found != wanted || text("SYSLOG_IDENTIFIER") != "gangliond" || text("MESSAGE").is_empty()
        {
            let name = event.name;
            return Err(format!("{name} should have PRIORITY={wanted}: {entry}").into());
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
