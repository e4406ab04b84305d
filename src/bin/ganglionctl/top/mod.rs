//! `ganglionctl top`: the daemon at work, reading after reading.

mod keys;
mod reading;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::client;
use crate::failure::{Exit, OrFail as _, Outcome};
use crate::output;
use keys::Keys;
use reading::Reading;

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

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    client::block_on(async {
        let listen = |kind| signal(kind).or_fail(Exit::Failed, "Ctrl-C");
        let mut interrupt = listen(SignalKind::interrupt())?;
        // The terminal must be put back then, too.
        let mut terminate = listen(SignalKind::terminate())?;
        let keys = Keys::open(arguments.once);
        // A key or a signal is how it is meant to end.
        tokio::select! {
            watched = watch(bus, arguments) => watched?,
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
            () = keys.quit() => (),
        }
        Ok(())
    })
}

async fn watch(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let connection = client::connect(bus).await?;
    let mut paper = Paper::new();
    let mut before = Some((Instant::now(), Reading::take(&connection).await?));
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match Reading::take(&connection).await {
            Ok(mut now) => {
                let at = Instant::now();
                now.rate = before.as_ref().and_then(|(then, before)| {
                    let made = now.tokens().checked_sub(before.tokens())?;
                    #[allow(clippy::cast_precision_loss)] // shown to a tenth
                    Some(made as f64 / (at - *then).as_secs_f64().max(1e-3))
                });
                paper.show(&now.text(paper.terminal)?)?;
                before = Some((at, now));
            }
            // The daemon may come back, with all its counters at 0.
            Err(failure)
                if failure.exit == Exit::Unavailable
                    && !arguments.once
                    && !connection.is_closed() =>
            {
                paper.show(&reading::away(&failure.message, paper.terminal))?;
                before = None;
            }
            Err(failure) => return Err(failure),
        }
        if arguments.once {
            return Ok(());
        }
    }
}

/// Where readings are shown.
struct Paper {
    terminal: bool,
    /// So many lines has the reading that the next one takes the place of.
    lines: usize,
}

impl Paper {
    fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            lines: 0,
        }
    }

    /// Shows `text`, which is whole lines.
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
        // Lines are cut at the edge: one that went on would put those above it out of reach.
        let text = text.replace('\n', "\x1b[K\n");
        output::draw(&format!("\x1b[?7l{up}\r{text}\x1b[J\x1b[?7h"))
    }
}
