//! `ganglionctl sessions`: a user's named conversations: listed, shown, exported, deleted.

use std::collections::BTreeMap;

use clap::{Parser, Subcommand};
use ganglion::bus::proxy::ManagerProxy;
use serde_json::{Value, json};
use zbus::Connection;

use crate::client::{self, is_gone, listed, messages, object, text};
use crate::failure::{Outcome, bail};
use crate::{output, view};

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the messages of one, also while a program uses it
    Show { name: String },
    /// Print one as a JSON object, with all fields of its messages. Turns that were dropped at the context's end are
    /// included, as far as the daemon has them
    Export { name: String },
    /// Delete one that is not in use, also from the disk
    Delete { name: String },
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let connection = client::connect(bus).await?;
    match &arguments.verb {
        None => list(&connection, arguments.json).await,
        Some(Verb::Show { name }) => {
            let messages = read(&connection, name).await?;
            let shown: Vec<_> = messages.iter().map(line).collect();
            output::print(&shown.concat())
        }
        Some(Verb::Export { name }) => {
            let messages = read(&connection, name).await?;
            output::print_json(&json!({ "name": name, "messages": messages }))
        }
        Some(Verb::Delete { name }) => {
            let manager = ManagerProxy::new(&connection).await?;
            Ok(manager.delete_session(name).await?)
        }
    }
}

/// Formats a message for people.
fn line(message: &Value) -> String {
    let notes = [("partial", " (cut short)"), ("dropped", " (dropped)")];
    let notes = notes.into_iter().filter(|(name, _)| message[*name] == true);
    let notes: String = notes.map(|(_, note)| note).collect();
    let images = match message["images"].as_array().map_or(0, Vec::len) {
        0 => String::new(),
        1 => " (1 image)".to_owned(),
        images => format!(" ({images} images)"),
    };
    format!(
        "{}{notes}{images}: {}\n",
        text(&message["role"]),
        text(&message["content"])
    )
}

/// Prints the sessions of this user.
pub(crate) async fn list(connection: &Connection, as_json: bool) -> Outcome {
    let manager = ManagerProxy::new(connection).await?;
    let listed = client::at_once(manager.list_sessions()).await?.into_iter();
    let listed: BTreeMap<_, _> = listed.map(|(name, info)| (name, object(&info))).collect();
    if listed.is_empty() && !as_json {
        output::note(
            "there is none: ganglionctl chat --session NAME makes one, and so do programs by OpenSession",
        );
        return Ok(());
    }
    view::print(as_json, include_str!("sessions.txt"), &listed)
}

/// Reads the messages of a session, which another program may be using.
async fn read(connection: &Connection, name: &str) -> Outcome<Vec<Value>> {
    let manager = ManagerProxy::new(connection).await?;
    let Some(found) = listed(&manager, name).await? else {
        bail!(Data: "there is no session {name:?}; ganglionctl sessions lists those that there are");
    };
    if is_gone(&found)
        && let Some(file) = found["damaged"].as_array().and_then(|files| files.last())
    {
        let file = text(file);
        bail!(Data: "session {name:?} is gone: its file was damaged, and was renamed to {file}");
    }
    let messages = manager.read_session(name).await?;
    Ok(messages.into_iter().map(messages::to_json).collect())
}
