//! `ganglionctl status`: what the daemon tells about itself, and by the exit code whether it is ready.

use std::time::Duration;

use clap::Parser;
use ganglion::bus::proxy::ManagerProxy;
use serde::Serialize;
use tokio::time::{sleep, timeout};
use zbus::Connection;
use zbus::proxy::CacheProperties;

use crate::client::info::{Object, megabytes, object, plain, table};
use crate::client::waiting::{Ask, Waiting};
use crate::client::{self, refused};
use crate::failure::{Exit, Failure};
use crate::output;

/// Between two looks at a daemon that is not ready yet.
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
        Ok(f64::INFINITY) => Ok(Duration::MAX),
        Ok(seconds) if seconds >= 0.0 => {
            Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
        }
        _ => Err("it must be a number from 0".into()),
    }
}

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
struct Status {
    state: String,
    detail: String,
    version: String,
    backend: String,
    /// Which device that is, or why it is not another.
    device: String,
    model: Object,
    /// Bytes.
    memory: Object,
    queue_length: u32,
    sessions: u32,
    features: Vec<String>,
    graph_state: String,
    /// As `ganglionctl graph --json` prints it.
    graph: Object,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let status = client::block_on(async {
        let connection = client::connect(bus).await?;
        if let Some(limit) = arguments.wait {
            wait(&connection, limit).await?;
        }
        client::at_once(Status::read(&connection)).await
    })?;
    if arguments.json {
        output::print_json(&status)?;
    } else {
        output::print(&status.table())?;
    }
    Ok(match status.state.as_str() {
        "ready" => Exit::Ok,
        "loading" => Exit::Busy,
        "failed" => Exit::Config,
        _ => Exit::Unavailable,
    })
}

/// Until it is ready or has failed. A daemon that is away may come back; only the first look starts one.
///
/// # Errors
/// If the bus lets nobody look.
async fn wait(connection: &Connection, limit: Duration) -> Result<(), Failure> {
    let settled = async {
        let mut may_start = true;
        loop {
            if may_start || client::is_there(connection).await? {
                may_start = false;
                match client::at_once(state(connection)).await {
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

/// As it is now.
async fn state(connection: &Connection) -> Result<String, Failure> {
    let manager = ManagerProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
        .map_err(|error| refused(error.into()))?;
    manager.state().await.map_err(refused)
}

impl Status {
    async fn read(connection: &Connection) -> Result<Self, Failure> {
        let manager = client::manager(connection).await?;
        let diagnostics = client::diagnostics(connection).await?;
        let device = object(&diagnostics.device().await.map_err(refused)?);
        Ok(Self {
            state: manager.state().await.map_err(refused)?,
            detail: manager.state_detail().await.map_err(refused)?,
            version: manager.version().await.map_err(refused)?,
            backend: manager.backend().await.map_err(refused)?,
            device: device.get("description").map(plain).unwrap_or_default(),
            model: object(&manager.model().await.map_err(refused)?),
            memory: object(&manager.memory().await.map_err(refused)?),
            queue_length: manager.queue_length().await.map_err(refused)?,
            sessions: manager.sessions().await.map_err(refused)?,
            features: manager.features().await.map_err(refused)?,
            graph_state: diagnostics.graph_state().await.map_err(refused)?,
            graph: object(&diagnostics.decode_graph().await.map_err(refused)?),
        })
    }

    fn table(&self) -> String {
        let mut rows = vec![("state".to_owned(), self.state.clone())];
        rows.push(("detail".into(), self.detail.clone()));
        rows.push(("version".into(), self.version.clone()));
        rows.push(("backend".into(), self.backend.clone()));
        rows.push(("device".into(), self.device.clone()));
        for (key, value) in &self.model {
            let row = match (key.strip_suffix("_bytes"), value.as_u64()) {
                (Some(what), Some(bytes)) => (format!("model {what}"), megabytes(bytes)),
                _ => (format!("model {key}"), plain(value)),
            };
            rows.push(row);
        }
        for (key, value) in &self.memory {
            let value = value.as_u64().map_or_else(|| plain(value), megabytes);
            rows.push((format!("memory {key}"), value));
        }
        rows.push(("queue".into(), self.queue_length.to_string()));
        rows.push(("sessions".into(), self.sessions.to_string()));
        rows.push(("graph".into(), self.graph_state.clone()));
        if self.graph_state != "none" {
            for key in ["mode", "reason", "last_error"] {
                let value = self.graph.get(key).map(plain).unwrap_or_default();
                rows.push((format!("graph {}", key.replace('_', " ")), value));
            }
        }
        table(rows)
    }
}
