//! Watches the system's memory, and has the engine release its own while other programs wait for memory.
//!
//! The kernel reports how long programs wait (PSI), and how much memory is available. Both must be bad: programs also wait
//! for memory while much of it is available, for example when they read many files. The engine decides what it releases.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::engine::Handle;
use crate::load;

/// The interval at which the figures are read. The engine releases one kind of memory in each.
const LOOK: Duration = Duration::from_secs(1);
/// The least share of the last ten seconds, in percent, in which some program waited for memory.
const SOME: f64 = 5.0;
/// The same for all programs at once.
const FULL: f64 = 1.0;

/// The files that the figures are read from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// /proc/pressure/memory, or a copy of it.
    pub(super) pressure: PathBuf,
    /// Where the available memory is read from, with the limits of the control group.
    pub(super) memory: load::Settings,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            pressure: "/proc/pressure/memory".into(),
            memory: load::Settings::default(),
        }
    }
}

impl Sources {
    /// Whether less than `keep_free` bytes are available and programs wait for memory. A kernel without PSI reports no
    /// waiting; then the available memory alone decides.
    fn are_bad(&self, keep_free: u64) -> bool {
        let is_short = load::available(&self.memory).is_ok_and(|bytes| bytes < keep_free);
        is_short && self.programs_wait()
    }

    fn programs_wait(&self) -> bool {
        waits(&self.pressure).is_none_or(|[some, full]| some >= SOME || full >= FULL)
    }
}

/// Returns the shares of the last ten seconds in which some, and all, programs waited; `None` if they are unknown.
fn waits(file: &Path) -> Option<[f64; 2]> {
    let text = fs::read_to_string(file).ok()?;
    let share = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let value = line
            .split_whitespace()
            .find_map(|field| field.strip_prefix("avg10="));
        value?.parse().ok()
    };
    Some([share("some ")?, share("full ").unwrap_or_default()])
}

/// The memory that other programs are left, which a reload changes.
#[derive(Debug)]
pub(super) struct Pressure {
    keep_free: watch::Sender<u64>,
}

impl Pressure {
    /// Watches until the value is dropped. Nothing is read while `keep_free` is 0.
    pub(super) fn watch(engine: Handle, sources: Sources) -> Self {
        let (keep_free, bytes) = watch::channel(0);
        tokio::spawn(follow(engine, sources, bytes));
        Self { keep_free }
    }

    /// Sets the bytes that are to stay available.
    pub(super) fn keep_free(&self, bytes: u64) {
        self.keep_free.send_replace(bytes);
    }
}

async fn follow(engine: Handle, sources: Sources, mut keep_free: watch::Receiver<u64>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // It ends when the service does.
    while keep_free.wait_for(|bytes| *bytes > 0).await.is_ok() {
        looks.tick().await;
        let (sources, bytes) = (sources.clone(), *keep_free.borrow());
        // Files of the kernel can take long to read while memory is short.
        let bad = tokio::task::spawn_blocking(move || sources.are_bad(bytes)).await;
        if bad.unwrap_or_default() {
            engine.relieve_memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files as the kernel writes them.
    fn sources(folder: &Path, available_kib: u64, some: f64, full: f64) -> Sources {
        let [pressure, meminfo] = ["pressure", "meminfo"].map(|name| folder.join(name));
        let line =
            |kind, share| format!("{kind} avg10={share:.2} avg60=0.00 avg300=0.00 total=9\n");
        let text = line("some", some) + &line("full", full);
        fs::write(&pressure, text).expect("a file");
        let text = format!("MemTotal: 9 kB\nMemAvailable:   {available_kib} kB\n");
        fs::write(&meminfo, text).expect("a file");
        Sources {
            pressure,
            memory: load::Settings {
                meminfo,
                groups: None,
                ..load::Settings::default()
            },
        }
    }

    #[test]
    fn memory_is_short_only_while_programs_wait_for_it_and_little_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let keep = 100 << 10;
        for (available, some, full, bad) in [
            (99, 20.0, 0.0, true),
            (99, 0.0, 1.5, true),
            (99, 1.0, 0.5, false),
            (100, 90.0, 90.0, false),
        ] {
            let sources = sources(folder.path(), available, some, full);
            assert_eq!(sources.are_bad(keep), bad, "{available} {some} {full}");
        }
    }

    #[test]
    fn without_figures_of_pressure_the_available_memory_decides() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sources = sources(folder.path(), 99, 0.0, 0.0);
        for text in ["", "some avg10=x\n"] {
            fs::write(&sources.pressure, text).expect("a file");
            assert!(sources.are_bad(100 << 10), "{text:?}");
        }
        sources.pressure = folder.path().join("none");
        assert!(sources.are_bad(100 << 10));
        sources.memory.meminfo = folder.path().join("none");
        assert!(!sources.are_bad(100 << 10), "nothing is known");
    }
}
