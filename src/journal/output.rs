//! The destination of events: the journal's socket under systemd, else stderr.

use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use nix::sys::stat::fstat;
use tracing::level_filters::LevelFilter;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use super::callers::LeftOut;
use super::level::Level;
use super::libraries::Libraries;
use super::line::Line;
use super::queue::{self, EventQueue, Summaries};
use super::{TARGET, events};

/// The longest time that a start waits for the journal's socket, which a stopped journal does not accept.
const OPENS: Duration = Duration::from_millis(500);

/// The open connection to the journal.
#[derive(Clone, Debug)]
pub struct Journal {
    filter: reload::Handle<Targets, Registry>,
}

/// Connects the whole process to the journal, and starts the thread that sends events.
///
/// # Errors
/// If it is connected already, or the system refuses a thread.
pub fn init(level: Level) -> io::Result<Journal> {
    let (filter, handle) = reload::Layer::new(targets(level));
    let queue = Arc::new(EventQueue::new(Summaries {
        left_out,
        dropped: events::events_dropped,
    }));
    let sender = queue.clone();
    let (opened, opens) = mpsc::channel();
    thread::Builder::new()
        .name("journal".into())
        .spawn(move || {
            // Opening the socket may wait, so this thread does it.
            let output = tracing_subscriber::registry().with(output().with_filter(filter));
            // The starting thread may have stopped waiting.
            let _ = opened.send(());
            tracing::subscriber::with_default(output, || sender.serve());
        })?;
    tracing_subscriber::registry()
        .with(Libraries.with_filter(LevelFilter::WARN))
        .try_init()
        .map_err(io::Error::other)?;
    queue::set_level(level.into());
    queue::install(queue);
    // Later steps of the start use descriptors. Where few are left, the journal's socket must have been opened before.
    let _ = opens.recv_timeout(OPENS);
    Ok(Journal { filter: handle })
}

/// Reports a summary of events that were left out.
fn left_out(left_out: &LeftOut) {
    let whose = match left_out.cause {
        Some(user) => format!("user {user}"),
        None => "callers".to_owned(),
    };
    let kinds = left_out.to_string();
    events::events_left_out(&whose, left_out.cause, left_out.count(), &kinds);
}

impl Journal {
    /// Sets the least severe level that is reported.
    pub fn set_level(&self, level: Level) {
        queue::set_level(level.into());
        let filter = self.filter.clone();
        // The change is queued, so that earlier events are filtered by the old level.
        queue::change(Box::new(move || {
            // This fails only without a subscriber, which lives as long as the process.
            let _ = filter.reload(targets(level));
        }));
    }
}

fn targets(level: Level) -> Targets {
    Targets::new().with_target(TARGET, LevelFilter::from(level))
}

fn output() -> Box<dyn Layer<Registry> + Send + Sync> {
    match stderr_is_journal().then(tracing_journald::layer) {
        Some(Ok(layer)) => layer
            .with_field_prefix(None)
            .with_syslog_identifier("gangliond".into())
            .with_priority_mappings(PriorityMappings {
                info: Priority::Informational,
                debug: Priority::Debug,
                ..PriorityMappings::new()
            })
            .boxed(),
        // Without its socket, the journal still reads stderr.
        _ => fmt::layer()
            .with_writer(io::stderr)
            .event_format(Line)
            .boxed(),
    }
}

/// Whether systemd has connected stderr to the journal: `JOURNAL_STREAM` names its device and inode.
#[must_use]
pub fn stderr_is_journal() -> bool {
    let (Ok(stream), Ok(stderr)) = (std::env::var("JOURNAL_STREAM"), fstat(io::stderr())) else {
        return false;
    };
    stream == format!("{}:{}", stderr.st_dev, stderr.st_ino)
}
