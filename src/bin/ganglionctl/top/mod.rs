//! `ganglionctl top`: shows the daemon's activity in regular readings. Not here: changes of anything.

mod keys;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use clap::Parser;
use ganglion::bus::proxy::DiagnosticsProxy;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use zbus::Connection;

use crate::client::{self, DIAGNOSTICS, MANAGER};
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::{output, view};
use keys::Keys;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Seconds between two readings, from 0.1 to 3600
    #[arg(long, short, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print one reading, over one interval, and end
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it must be from 0.1 to 3600".to_owned())
    }
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let listen = |kind| signal(kind).or_fail(Exit::Failed, "Ctrl-C");
    let mut interrupt = listen(SignalKind::interrupt())?;
    // The terminal must also be restored after SIGTERM.
    let mut terminate = listen(SignalKind::terminate())?;
    let keys = Keys::open(arguments.once);
    // A key or a signal ends the program without an error.
    tokio::select! {
        watched = watch(bus, arguments) => watched?,
        _ = interrupt.recv() => (),
        _ = terminate.recv() => (),
        () = keys.quit() => (),
    }
    Ok(())
}

async fn watch(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let connection = client::connect(bus).await?;
    let mut display = Display::new();
    let mut before = Some((Instant::now(), read(&connection).await?));
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match read_there(&connection).await {
            Ok(mut now) => {
                let at = Instant::now();
                // Tokens per second since the previous reading.
                now["rate"] = json!(before.and_then(|(then, before)| {
                    let made = tokens(&now).checked_sub(tokens(&before))?;
                    #[allow(clippy::cast_precision_loss)] // shown to a tenth
                    Some(made as f64 / (at - then).as_secs_f64().max(1e-3))
                }));
                display.show(&view::text(display.template(), &now)?)?;
                before = Some((at, now));
            }
            // The daemon may return, with all its counters at 0.
            Err(failure)
                if failure.exit == Exit::Unavailable
                    && !arguments.once
                    && !connection.is_closed() =>
            {
                let why = failure.message;
                display.show(&if display.terminal {
                    format!("state  away: {why}\n")
                } else {
                    format!("state=away why={why:?}\n")
                })?;
                before = None;
            }
            Err(failure) => return Err(failure),
        }
        if arguments.once {
            return Ok(());
        }
    }
}

/// Takes a reading if the daemon runs; a query would otherwise start a daemon that was stopped on purpose.
async fn read_there(connection: &Connection) -> Outcome<Value> {
    let is_there = client::is_there(connection).await?;
    ensure!(is_there, Unavailable: "gangliond is not running; see systemctl status gangliond");
    read(connection).await
}

/// Reads the properties of both interfaces at one moment.
async fn read(connection: &Connection) -> Outcome<Value> {
    // Reading this property turns the timing of steps on.
    DiagnosticsProxy::new(connection).await?.timing().await?;
    let manager = client::properties(connection, MANAGER).await?;
    let diagnostics = client::properties(connection, DIAGNOSTICS).await?;
    Ok(json!({ "manager": manager, "diagnostics": diagnostics }))
}

/// Returns the number of tokens since the daemon's start.
fn tokens(reading: &Value) -> u64 {
    let tokens = reading["diagnostics"]["Timing"]["tokens"].as_u64();
    tokens.unwrap_or_default()
}

/// The output of readings.
struct Display {
    terminal: bool,
    /// The number of lines of the reading that the next one replaces.
    lines: usize,
}

impl Display {
    fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            lines: 0,
        }
    }

    /// Returns the template: for people, or in one line with names and values for programs.
    fn template(&self) -> &'static str {
        if self.terminal {
            include_str!("table.txt")
        } else {
            include_str!("line.txt")
        }
    }

    /// Shows `text`, which consists of whole lines.
    fn show(&mut self, text: &str) -> Outcome {
        if !self.terminal {
            return output::print(text);
        }
        let text = output::harmless(text);
        let up = match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        };
        self.lines = text.lines().count();
        // Lines are cut at the edge: a wrapped line would break the replacement of those above it.
        let text = text.replace('\n', "\x1b[K\n");
        output::draw(&format!("\x1b[?7l{up}\r{text}\x1b[J\x1b[?7h"))
    }
}
