//! `ganglionctl status`: shows the daemon's state, and reports by the exit code whether it is ready.

use std::mem::take;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use zbus::Connection;

use crate::client::{self, Ask, DIAGNOSTICS, MANAGER, Waiting, text};
use crate::failure::{Exit, Failure, Outcome};
use crate::view;

/// The interval of queries to a daemon that is not ready yet.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// First wait until it is ready or has failed, for at most this many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "inf",
        value_parser = seconds)]
    wait: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        // Durations beyond the largest one mean for ever.
        Ok(seconds) if seconds >= 0.0 => {
            Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        }
        _ => Err("it must be a number from 0".into()),
    }
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let connection = client::connect(bus).await?;
    if let Some(limit) = arguments.wait {
        wait(&connection, limit).await?;
    }
    let status = client::at_once(read(&connection)).await?;
    view::print(arguments.json, include_str!("status.txt"), &status)?;
    Err(Failure::quiet(match text(&status["state"]) {
        "ready" | "idle" => return Ok(()),
        "loading" => Exit::Busy,
        "failed" => Exit::Config,
        _ => Exit::Unavailable,
    }))
}

/// Waits until the daemon is ready or has failed. A missing daemon may return; only the first query starts it.
async fn wait(connection: &Connection, limit: Duration) -> Outcome {
    let settled = async {
        let mut may_start = true;
        loop {
            if take(&mut may_start) || client::is_there(connection).await? {
                let manager = client::properties(connection, MANAGER);
                match client::at_once(manager).await {
                    Ok(manager)
                        if ["ready", "idle", "failed"].contains(&text(&manager["State"])) =>
                    {
                        return Ok(());
                    }
                    Err(failure) if failure.exit != Exit::Unavailable => return Err(failure),
                    _ => {}
                }
            }
            sleep(LOOK).await;
        }
    };
    let mut waiting = Waiting::new(false);
    let waited = waiting.during(Ask::Daemon(connection), timeout(limit, settled));
    // After the time limit, the present state is shown.
    waited.await.unwrap_or(Ok(()))
}

/// Reads the state as an object whose keys are stable: scripts read them.
async fn read(connection: &Connection) -> Outcome<Value> {
    let manager = client::properties(connection, MANAGER).await?;
    let diagnostics = client::properties(connection, DIAGNOSTICS).await?;
    Ok(json!({
        "state": manager["State"],
        "detail": manager["StateDetail"],
        "version": manager["Version"],
        "backend": manager["Backend"],
        "model": manager["Model"],
        "memory": manager["Memory"],
        "queue_length": manager["QueueLength"],
        "sessions": manager["Sessions"],
        // Each has held, user, connection, reason, since and seconds_left.
        "holds": manager.get("Holds").unwrap_or(&json!([])),
        "features": manager["Features"],
        // The description names the device, or says why it is not another.
        "device": text(&diagnostics["Device"]["description"]),
        "graph_state": text(&diagnostics["GraphState"]),
        // The same object as `ganglionctl graph --json`.
        "graph": diagnostics.get("DecodeGraph").unwrap_or(&json!({})),
    }))
}
