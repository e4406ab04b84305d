//! What the daemon tells at one moment, as a table or as a line.

use ganglion::bus::proxy::DiagnosticsProxy;
use serde_json::Value;
use zbus::Connection;

use crate::client::info::{Object, megabytes, part, plain, text};
use crate::client::{self, DIAGNOSTICS, MANAGER};
use crate::failure::Outcome;
use crate::table;

/// Properties of both interfaces.
pub(super) struct Reading {
    manager: Object,
    graph: Object,
    timing: Object,
    work: Object,
}

impl Reading {
    pub(super) async fn take(connection: &Connection) -> Outcome<Self> {
        // Read by itself, it has steps timed.
        DiagnosticsProxy::new(connection).await?.timing().await?;
        let diagnostics = client::properties(connection, DIAGNOSTICS).await?;
        Ok(Self {
            manager: client::properties(connection, MANAGER).await?,
            graph: part(&diagnostics, "DecodeGraph"),
            timing: part(&diagnostics, "Timing"),
            work: part(&diagnostics, "Work"),
        })
    }

    fn model(&self) -> String {
        text(&part(&self.manager, "Model"), "name")
    }

    /// Made since the daemon's start.
    pub(super) fn tokens(&self) -> u64 {
        let tokens = self.timing.get("tokens");
        tokens.and_then(Value::as_u64).unwrap_or_default()
    }

    /// What people read. `rate` is tokens per second, if it is known.
    pub(super) fn table(&self, rate: Option<f64>) -> String {
        let manager = |key| text(&self.manager, key);
        let graph = |key| text(&self.graph, key);
        let mut rows = vec![
            ("state", manager("State")),
            ("detail", manager("StateDetail")),
            ("model", self.model()),
            ("tokens/s", rate.map_or("-".into(), |_| per_second(rate))),
        ];
        if self.time("steps") > Some(0.0) {
            for name in ["step", "gap", "host"] {
                rows.push((name, self.times(name)));
            }
        }
        rows.push(("mostly", self.operations()));
        rows.push(("graph", graph("state")));
        if graph("state") != "none" {
            let how = format!("mode {}, reason {}", graph("mode"), graph("reason"));
            rows.push(("", how));
            let counted = ["recordings", "launches", "eager_steps", "failures"];
            let counted = counted.map(|key| format!("{} {}", graph(key), key.replace('_', " ")));
            rows.push(("", counted.join(", ")));
            rows.push(("graph error", graph("last_error")));
        }
        rows.push(("answers", self.answers()));
        rows.push(("queue", manager("QueueLength")));
        rows.push(("sessions", manager("Sessions")));
        let held = self.memory();
        let held = held.map(|(name, bytes)| format!("{name} {}", megabytes(bytes)));
        rows.push(("memory", held.collect::<Vec<_>>().join(", ")));
        table::named(rows.into_iter().map(|(name, value)| (name.into(), value)))
    }

    /// What programs read: names and values, all in one line.
    pub(super) fn line(&self, rate: Option<f64>) -> String {
        let timing = |key: &str| format!("{:.1}", self.time(key).unwrap_or_default());
        let manager = |key| text(&self.manager, key);
        let graph = |key| text(&self.graph, key);
        let bytes: u64 = self.memory().map(|(_, bytes)| bytes).sum();
        let fields = [
            ("state", manager("State")),
            ("model", format!("{:?}", self.model())),
            ("tokens_per_second", per_second(rate)),
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
            ("rows", text(&self.work, "rows")),
            ("waiting", text(&self.work, "waiting")),
            ("queue", manager("QueueLength")),
            ("sessions", manager("Sessions")),
            ("memory_bytes", bytes.to_string()),
        ];
        let fields = fields.map(|(name, value)| format!("{name}={value}"));
        fields.join(" ") + "\n"
    }

    /// Bytes, by what they are for.
    fn memory(&self) -> impl Iterator<Item = (String, u64)> {
        let memory = part(&self.manager, "Memory").into_iter();
        memory.filter_map(|(name, bytes)| Some((name, bytes.as_u64()?)))
    }

    fn time(&self, key: &str) -> Option<f64> {
        self.timing.get(key)?.as_f64()
    }

    /// Whom it answers, and who waits.
    fn answers(&self) -> String {
        let count = |key: &str| self.work.get(key).and_then(Value::as_u64).unwrap_or(0);
        let some = |key: &str| {
            let (now, wait) = (count(key), count(&format!("waiting_{key}")));
            (now + wait > 0).then(|| format!("{key} {now} (waiting {wait})"))
        };
        let by_priority = ["realtime", "normal", "background"];
        let mut shown = vec![format!("rows {}", count("rows"))];
        shown.extend(by_priority.into_iter().filter_map(some));
        for key in ["reading", "suspended"] {
            shown.extend((count(key) > 0).then(|| format!("{key} {}", count(key))));
        }
        let (pages, free) = (count("pages"), count("pages_free"));
        let held = pages - free.min(pages);
        let allocated = count("pages_allocated");
        shown.extend(
            (pages > 0).then(|| format!("pages {held} of {pages} ({allocated} allocated)")),
        );
        let users = self.work.get("waiting_users").and_then(Value::as_array);
        let users: Vec<_> = users.into_iter().flatten().map(plain).collect();
        if !users.is_empty() {
            shown.push(format!("users who wait {}", users.join(" ")));
        }
        shown.join(", ")
    }

    /// The three kinds of operations that take the most of a step; empty where none has been timed.
    fn operations(&self) -> String {
        let all = part(&self.timing, "operations");
        let us = |kind: &Value| kind.get("us").and_then(Value::as_f64).unwrap_or_default();
        let mut kinds: Vec<_> = all.iter().map(|(name, kind)| (name, us(kind))).collect();
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

/// This is shown in a reading's place while there is no daemon.
pub(super) fn away(why: &str, terminal: bool) -> String {
    if terminal {
        format!("state  away: {why}\n")
    } else {
        format!("state=away why={why:?}\n")
    }
}

/// Empty if it is not known.
fn per_second(rate: Option<f64>) -> String {
    rate.map(|rate| format!("{rate:.1}")).unwrap_or_default()
}

/// Microseconds in the unit that people read best.
fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.1} us")
    } else {
        format!("{:.2} ms", us / 1e3)
    }
}
