//! What the daemon tells at one moment, as a table or as a line.

use std::sync::LazyLock;

use ganglion::bus;
use serde_json::Value;
use zbus::Connection;
use zbus::fdo::PropertiesProxy;
use zbus::names::InterfaceName;

use crate::client::info::{Object, megabytes, object, plain, table};
use crate::client::refused;
use crate::failure::Failure;

const DIAGNOSTICS: &str = "org.ganglion.Llm1.Diagnostics";

/// All properties of both interfaces.
pub(super) struct Reading {
    manager: Object,
    diagnostics: Object,
}

impl Reading {
    pub(super) async fn take(connection: &Connection) -> Result<Self, Failure> {
        let properties = async |interface: &'static str| {
            let proxy = PropertiesProxy::new(connection, bus::NAME, bus::PATH).await?;
            let interface = InterfaceName::from_static_str_unchecked(interface);
            Ok::<_, zbus::Error>(object(&proxy.get_all(interface).await?))
        };
        // Read by itself, it has steps timed.
        let look = async || {
            let proxy = PropertiesProxy::new(connection, bus::NAME, bus::PATH).await?;
            let interface = InterfaceName::from_static_str_unchecked(DIAGNOSTICS);
            proxy
                .get(interface, "Timing")
                .await
                .map_err(zbus::Error::from)
        };
        let both = async {
            look().await?;
            Ok(Self {
                manager: properties("org.ganglion.Llm1.Manager").await?,
                diagnostics: properties(DIAGNOSTICS).await?,
            })
        };
        both.await
            .map_err(|error: zbus::Error| refused(error.into()))
    }

    /// Made since the daemon's start.
    pub(super) fn tokens(&self) -> u64 {
        let tokens = self.timing().get("tokens");
        tokens.and_then(Value::as_u64).unwrap_or_default()
    }

    /// For people. `rate` is tokens per second, if it is known.
    pub(super) fn table(&self, rate: Option<f64>) -> String {
        let manager = |key| text(&self.manager, key);
        let graph = |key| text(part(&self.diagnostics, "DecodeGraph"), key);
        let mut rows = vec![
            ("state", manager("State")),
            ("detail", manager("StateDetail")),
            ("model", text(part(&self.manager, "Model"), "name")),
            (
                "tokens/s",
                rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}")),
            ),
        ];
        if self.time("steps") > Some(0.0) {
            for name in ["step", "gap", "host"] {
                rows.push((name, self.times(name)));
            }
        }
        rows.push(("mostly", self.operations()));
        rows.push(("graph", graph("state")));
        if graph("state") != "none" {
            rows.push((
                "",
                format!("mode {}, reason {}", graph("mode"), graph("reason")),
            ));
            let counted = ["recordings", "launches", "eager_steps", "failures"];
            let counted = counted.map(|key| format!("{} {}", graph(key), key.replace('_', " ")));
            rows.push(("", counted.join(", ")));
            rows.push(("graph error", graph("last_error")));
        }
        rows.push(("queue", manager("QueueLength")));
        rows.push(("sessions", manager("Sessions")));
        let held: Vec<_> = self
            .memory()
            .map(|(name, bytes)| format!("{name} {}", megabytes(bytes)))
            .collect();
        rows.push(("memory", held.join(", ")));
        table(rows.into_iter().map(|(name, value)| (name.into(), value)))
    }

    /// For programs: names and values, all in one line.
    pub(super) fn line(&self, rate: Option<f64>) -> String {
        let timing = |key: &str| format!("{:.1}", self.time(key).unwrap_or_default());
        let manager = |key| text(&self.manager, key);
        let graph = |key| text(part(&self.diagnostics, "DecodeGraph"), key);
        let fields = [
            ("state", manager("State")),
            (
                "model",
                format!("{:?}", text(part(&self.manager, "Model"), "name")),
            ),
            (
                "tokens_per_second",
                rate.map_or_else(String::new, |rate| format!("{rate:.1}")),
            ),
            ("step_p50_us", timing("step_p50_us")),
            ("step_p99_us", timing("step_p99_us")),
            ("gap_p50_us", timing("gap_p50_us")),
            ("host_p50_us", timing("host_p50_us")),
            ("graph", graph("state")),
            ("reason", format!("{:?}", graph("reason"))),
            ("recordings", graph("recordings")),
            ("launches", graph("launches")),
            ("eager_steps", graph("eager_steps")),
            ("failures", graph("failures")),
            ("queue", manager("QueueLength")),
            ("sessions", manager("Sessions")),
            (
                "memory_bytes",
                self.memory()
                    .map(|(_, bytes)| bytes)
                    .sum::<u64>()
                    .to_string(),
            ),
        ];
        let fields = fields.map(|(name, value)| format!("{name}={value}"));
        fields.join(" ") + "\n"
    }

    fn timing(&self) -> &Object {
        part(&self.diagnostics, "Timing")
    }

    /// Bytes, by what they are for.
    fn memory(&self) -> impl Iterator<Item = (&String, u64)> {
        let memory = part(&self.manager, "Memory").iter();
        memory.filter_map(|(name, bytes)| Some((name, bytes.as_u64()?)))
    }

    fn time(&self, key: &str) -> Option<f64> {
        self.timing().get(key)?.as_f64()
    }

    /// The three kinds of operations that take the most of a step; empty where none has been timed.
    fn operations(&self) -> String {
        let all = part(self.timing(), "operations").iter();
        let us = |kind: &Value| kind.get("us").and_then(Value::as_f64).unwrap_or_default();
        let mut kinds: Vec<_> = all.map(|(name, kind)| (name, us(kind))).collect();
        kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
        let step: f64 = kinds.iter().map(|(_, us)| us).sum();
        let largest = kinds.iter().take(3);
        let shown =
            largest.map(|(name, us)| format!("{name} {:.0}% ({})", 100.0 * us / step, time(*us)));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn times(&self, name: &str) -> String {
        let time = |of| time(self.time(&format!("{name}_{of}_us")).unwrap_or_default());
        format!("p50 {}, p99 {}", time("p50"), time("p99"))
    }
}

/// In a reading's place while there is no daemon.
pub(super) fn away(why: &str, terminal: bool) -> String {
    if terminal {
        format!("state  away: {why}\n")
    } else {
        format!("state=away why={why:?}\n")
    }
}

/// A dictionary in another; empty if it is not there.
fn part<'a>(object: &'a Object, key: &str) -> &'a Object {
    static NOTHING: LazyLock<Object> = LazyLock::new(Object::new);
    object
        .get(key)
        .and_then(Value::as_object)
        .unwrap_or(&NOTHING)
}

fn text(object: &Object, key: &str) -> String {
    object.get(key).map(plain).unwrap_or_default()
}

/// Microseconds in the unit that people read best.
fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.1} us")
    } else {
        format!("{:.2} ms", us / 1e3)
    }
}
