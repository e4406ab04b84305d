//! What the daemon tells at one moment, as a table or as a line.

use ganglion::bus::proxy::DiagnosticsProxy;
use serde::Serialize;
use serde_json::Value;
use zbus::Connection;

use crate::client::info::Object;
use crate::client::{self, DIAGNOSTICS, MANAGER};
use crate::failure::Outcome;
use crate::view;

/// Properties of both interfaces.
#[derive(Serialize)]
pub(super) struct Reading {
    manager: Object,
    diagnostics: Object,
    /// Tokens per second since the reading before, if there was one.
    pub(super) rate: Option<f64>,
}

impl Reading {
    pub(super) async fn take(connection: &Connection) -> Outcome<Self> {
        // The property that is read by itself has steps timed.
        DiagnosticsProxy::new(connection).await?.timing().await?;
        Ok(Self {
            manager: client::properties(connection, MANAGER).await?,
            diagnostics: client::properties(connection, DIAGNOSTICS).await?,
            rate: None,
        })
    }

    /// Tokens that were made since the daemon's start.
    pub(super) fn tokens(&self) -> u64 {
        let timing = self.diagnostics.get("Timing");
        let tokens = timing.and_then(|timing| timing.get("tokens"));
        tokens.and_then(Value::as_u64).unwrap_or_default()
    }

    /// What people read, or in one line what programs read: names and values.
    pub(super) fn text(&self, terminal: bool) -> Outcome<String> {
        let template = if terminal {
            include_str!("table.txt")
        } else {
            include_str!("line.txt")
        };
        view::text(template, self)
    }
}

/// This is shown in a reading's place while there is no daemon.
pub(super) fn away(why: &str, terminal: bool) -> String {
    if terminal {
        format!("state  away: {why}\n")
    } else {
        format!("state=away why={why:?}\n")
    }
}
