//! `ganglionctl sessions`: the conversations with a name that a user has: listed, shown, exported, deleted.

use std::collections::BTreeMap;

use clap::{Parser, Subcommand};
use ganglion::bus::proxy::{Info, ManagerProxy, SessionProxy};
use serde_json::{Value, json};
use zbus::Connection;

use crate::client::{self, object, text};
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
    /// Print what was said in one that no program uses at the moment
    Show { name: String },
    /// Print one as a JSON object, with all fields of its messages
    Export { name: String },
    /// Delete one that no program uses at the moment, on the disk too
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

/// A message, for people.
fn line(message: &Value) -> String {
    let is_cut = message["partial"] == true;
    let cut = if is_cut { " (cut short)" } else { "" };
    format!(
        "{}{cut}: {}\n",
        text(&message["role"]),
        text(&message["content"])
    )
}

async fn list(connection: &Connection, as_json: bool) -> Outcome {
    let manager = ManagerProxy::new(connection).await?;
    let listed = client::at_once(manager.list_sessions()).await?.into_iter();
    let listed: BTreeMap<_, _> = listed.map(|(name, info)| (name, object(&info))).collect();
    if listed.is_empty() && !as_json {
        output::tell("there is none: a program opens one by OpenSession with the option name");
        return Ok(());
    }
    view::print(as_json, include_str!("sessions.txt"), &listed)
}

/// What was said in a session. It is held meanwhile, by this connection.
async fn read(connection: &Connection, name: &str) -> Outcome<Vec<Value>> {
    let manager = ManagerProxy::new(connection).await?;
    // Whoever only looks must not make a session.
    let listed = manager.list_sessions().await?;
    let Some(told) = listed.get(name).map(object) else {
        bail!(Data: "there is no session {name:?}; ganglionctl sessions lists those that there are");
    };
    // Files that something had changed were set aside.
    if told["began"] == 0
        && let Some(file) = told["damaged"].as_array().and_then(|files| files.last())
    {
        let file = text(file);
        bail!(Data: "session {name:?} is not there any more: its file was damaged, and is {file} now");
    }
    let path = manager.open_session([("name", name.into())].into()).await?;
    let session = SessionProxy::new(connection, path).await?;
    let messages = session.messages().await?;
    session.close().await?;
    let with_role = |(role, fields): (String, Info)| {
        let mut message = object(&fields);
        message["role"] = role.into();
        message
    };
    Ok(messages.into_iter().map(with_role).collect())
}
