//! `ganglionctl sessions`: the conversations with a name that a user has: listed, shown, exported, deleted.

use std::collections::BTreeMap;

use clap::{Parser, Subcommand};
use ganglion::bus::proxy::{Info, ManagerProxy, SessionProxy};
use serde_json::{Value, json};
use zbus::Connection;

use crate::client;
use crate::client::info::{Object, object};
use crate::failure::Outcome;
use crate::output;
use crate::view;

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

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    client::block_on(async {
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
    })
}

/// A message, for people.
fn line(message: &Value) -> String {
    let text = |field: &str| message[field].as_str().unwrap_or_default();
    let cut = if message["partial"] == true {
        " (cut short)"
    } else {
        ""
    };
    format!("{}{cut}: {}\n", text("role"), text("content"))
}

async fn list(connection: &Connection, as_json: bool) -> Outcome {
    let manager = ManagerProxy::new(connection).await?;
    let listed = client::at_once(async { Ok(manager.list_sessions().await?) }).await?;
    let listed: BTreeMap<String, Object> = listed
        .into_iter()
        .map(|(name, info)| (name, object(&info)))
        .collect();
    if as_json {
        return output::print_json(&listed);
    }
    if listed.is_empty() {
        output::tell("there is none: a program opens one by OpenSession with the option name");
        return Ok(());
    }
    let listed = json!({ "sessions": listed });
    output::print(&view::text(include_str!("sessions.txt"), &listed)?)
}

/// Its files that something had changed, and that were set aside.
fn damaged(told: &Object) -> impl Iterator<Item = &str> {
    let files = told.get("damaged").and_then(Value::as_array);
    files.into_iter().flatten().filter_map(Value::as_str)
}

/// What was said in a session. It is held meanwhile, by this connection.
async fn read(connection: &Connection, name: &str) -> Outcome<Vec<Value>> {
    let manager = ManagerProxy::new(connection).await?;
    // Whoever only looks must not make a session.
    let listed = manager.list_sessions().await?;
    let Some(told) = listed.get(name).map(object) else {
        crate::failure::bail!(
            Data,
            "there is no session {name:?}; ganglionctl sessions lists those that there are"
        );
    };
    if told.get("began").and_then(Value::as_u64) == Some(0)
        && let Some(file) = damaged(&told).last()
    {
        crate::failure::bail!(
            Data,
            "session {name:?} is not there any more: its file was damaged, and is {file} now"
        );
    }
    let path = manager.open_session([("name", name.into())].into()).await?;
    let session = SessionProxy::new(connection, path).await?;
    let messages = session.messages().await?;
    session.close().await?;
    let with_role = |(role, fields): (String, Info)| {
        let mut message = object(&fields);
        message.insert("role".to_owned(), role.into());
        Value::Object(message.into_iter().collect())
    };
    Ok(messages.into_iter().map(with_role).collect())
}
