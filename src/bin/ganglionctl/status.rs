//! `ganglionctl status`: what the daemon tells about itself.

use clap::Parser;
use ganglion::bus::proxy::{DiagnosticsProxy, Info};
use serde::Serialize;
use serde_json::{Map, Value};
use zbus::{Connection, Variant};

use crate::client::{self, refused};
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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
    model: Map<String, Value>,
    /// Bytes.
    memory: Map<String, Value>,
    queue_length: u32,
    sessions: u32,
    features: Vec<String>,
    /// Absent where the backend has no decode graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_state: Option<String>,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let status = client::block_on(async {
        let connection = client::connect(bus).await?;
        Status::read(&connection).await
    })?;
    if arguments.json {
        output::print_json(&status)?;
    } else {
        output::print(&status.table())?;
    }
    Ok(Exit::Ok)
}

impl Status {
    async fn read(connection: &Connection) -> Result<Self, Failure> {
        let manager = client::manager(connection).await?;
        let diagnostics = DiagnosticsProxy::new(connection).await;
        let diagnostics = diagnostics.map_err(|error| refused(error.into()))?;
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
            graph_state: diagnostics.graph_state().await.ok(),
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
        rows.push(("graph".into(), self.graph_state.clone().unwrap_or_default()));
        rows.retain(|(_, value)| !value.is_empty());
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        rows.iter().fold(String::new(), |table, (name, value)| {
            table + &format!("{name:width$}  {value}\n")
        })
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown to a tenth of a megabyte
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

fn object(info: &Info) -> Map<String, Value> {
    let mut entries: Vec<_> = info.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
        .into_iter()
        .map(|(key, value)| (key.clone(), json(value)))
        .collect()
}

/// Numbers, strings and lists of them; what D-Bus has beyond JSON is shown as text.
fn json(value: &Variant<'_>) -> Value {
    match value {
        Variant::Bool(value) => (*value).into(),
        Variant::U8(value) => (*value).into(),
        Variant::U16(value) => (*value).into(),
        Variant::U32(value) => (*value).into(),
        Variant::U64(value) => (*value).into(),
        Variant::I16(value) => (*value).into(),
        Variant::I32(value) => (*value).into(),
        Variant::I64(value) => (*value).into(),
        Variant::F64(value) => (*value).into(),
        Variant::Str(value) => value.as_str().into(),
        Variant::Variant(value) => json(value),
        Variant::Array(values) => values.iter().map(json).collect(),
        other => other.to_string().into(),
    }
}
