//! `ganglionctl status`: what the daemon tells about itself, and by the exit code whether it is ready.

use std::time::Duration;

use clap::Parser;
use tokio::time::{sleep, timeout};
use zbus::Connection;

use crate::client::info::{Object, part, text};
use crate::client::waiting::{Ask, Waiting};
use crate::client::{self, DIAGNOSTICS, MANAGER};
use crate::failure::{Exit, Failure, Outcome};
use crate::view;

/// So long passes between two looks at a daemon that is not ready yet.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// First wait until it is ready or has failed, for at most so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "inf",
        value_parser = seconds)]
    wait: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        // What is longer than can be told is for ever.
        Ok(seconds) if seconds >= 0.0 => {
            Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        }
        _ => Err("it must be a number from 0".into()),
    }
}

/// Keys of the object, which are stable: scripts read them. Each is a property of the daemon's.
const KEYS: [(&str, &str); 9] = [
    ("state", "State"),
    ("detail", "StateDetail"),
    ("version", "Version"),
    ("backend", "Backend"),
    ("model", "Model"),
    ("memory", "Memory"),
    ("queue_length", "QueueLength"),
    ("sessions", "Sessions"),
    ("features", "Features"),
];

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let status = client::block_on(async {
        let connection = client::connect(bus).await?;
        if let Some(limit) = arguments.wait {
            wait(&connection, limit).await?;
        }
        client::at_once(read(&connection)).await
    })?;
    view::print(arguments.json, include_str!("status.txt"), &status)?;
    Err(Failure::quiet(match text(&status, "state").as_str() {
        "ready" => return Ok(()),
        "loading" => Exit::Busy,
        "failed" => Exit::Config,
        _ => Exit::Unavailable,
    }))
}

/// Waits until it is ready or has failed. A daemon that is away may come back; only the first look starts one.
async fn wait(connection: &Connection, limit: Duration) -> Outcome {
    let settled = async {
        let mut may_start = true;
        loop {
            if may_start || client::is_there(connection).await? {
                may_start = false;
                let manager = client::properties(connection, MANAGER);
                match client::at_once(manager)
                    .await
                    .map(|all| text(&all, "State"))
                {
                    Ok(state) if ["ready", "failed"].contains(&state.as_str()) => return Ok(()),
                    Err(failure) if failure.exit != Exit::Unavailable => return Err(failure),
                    _ => {}
                }
            }
            sleep(LOOK).await;
        }
    };
    let mut waiting = Waiting::new(false);
    let waited = waiting.during(Ask::Daemon(connection), timeout(limit, settled));
    // What it is when the time is over is for the table to say.
    waited.await.unwrap_or(Ok(()))
}

async fn read(connection: &Connection) -> Outcome<Object> {
    let manager = client::properties(connection, MANAGER).await?;
    let diagnostics = client::properties(connection, DIAGNOSTICS).await?;
    let value = |property| manager.get(property).cloned().unwrap_or_default();
    let mut status: Object = KEYS
        .map(|(key, property)| (key.into(), value(property)))
        .into_iter()
        .collect();
    // The description tells which device that is, or why it is not another.
    let device = text(&part(&diagnostics, "Device"), "description");
    status.insert("device".into(), device.into());
    let state = text(&diagnostics, "GraphState");
    status.insert("graph_state".into(), state.into());
    // It is as `ganglionctl graph --json` prints it.
    let graph = part(&diagnostics, "DecodeGraph");
    status.insert("graph".into(), graph.into());
    Ok(status)
}
