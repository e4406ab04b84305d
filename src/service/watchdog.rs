//! A plain thread that feeds systemd's watchdog while every part of the daemon makes progress, and otherwise reports
//! the stalled part.
//!
//! It only reads counters, so it depends on neither engine nor reactor. It ends nothing itself: systemd ends a process
//! whose watchdog is not fed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::{notify, threads};
use crate::bus::Bus;
use crate::engine::Handle;
use crate::journal;

/// The least time between two checks.
const LEAST: Duration = Duration::from_millis(10);

/// The counters of the watched parts, and the time that each may stall.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// The period of systemd's watchdog.
    period: Duration,
    stall_ms: AtomicU64,
    reactor: AtomicU64,
    bus: AtomicU64,
}

impl Watchdog {
    /// Starts the thread if systemd expects this process to feed its watchdog.
    pub(super) fn start(engine: Handle, bus: &Bus, stall: Duration) -> io::Result<Arc<Self>> {
        let watchdog = Arc::new(Self {
            period: sd_notify::watchdog_enabled().unwrap_or_default(),
            stall_ms: AtomicU64::default(),
            reactor: AtomicU64::default(),
            bus: AtomicU64::default(),
        });
        watchdog.set_stall(stall);
        if watchdog.period.is_zero() {
            return Ok(watchdog);
        }
        tokio::spawn(count_timer(watchdog.clone()));
        let name = bus.own_name();
        let of_bus = watchdog.clone();
        tokio::spawn(async move {
            loop {
                if name.answers().await {
                    of_bus.bus.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(of_bus.tick()).await;
            }
        });
        let watching = watchdog.clone();
        thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || watching.watch(&engine))?;
        Ok(watchdog)
    }

    /// Sets the time that a part may stall.
    pub(super) fn set_stall(&self, stall: Duration) {
        let millis = u64::try_from(stall.as_millis()).unwrap_or(u64::MAX);
        self.stall_ms.store(millis, Ordering::Relaxed);
    }

    fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms.load(Ordering::Relaxed))
    }

    /// Returns the time between two checks: short enough for systemd, and for the stall time.
    fn tick(&self) -> Duration {
        (self.period / 4).min(self.stall() / 8).max(LEAST)
    }

    fn watch(&self, engine: &Handle) {
        let [mut of_engine, mut of_reactor, mut of_bus] =
            ["engine", "reactor", "bus"].map(Part::new);
        let mut before = Instant::now();
        loop {
            let tick = self.tick();
            thread::sleep(tick);
            let now = Instant::now();
            // Time in which the whole process or machine was stopped does not count.
            let awake = (now - before).min(2 * tick);
            before = now;

            let (stall, pulse) = (self.stall(), engine.progress().pulse());
            let count = pulse.advanced;
            let advances = of_engine.check(count, pulse.idle, awake, stall, pulse.phase.name());
            let count = self.reactor.load(Ordering::Relaxed);
            let turns = of_reactor.check(count, false, awake, stall, "its timer does not fire");
            let count = self.bus.load(Ordering::Relaxed);
            // The reactor queries the bus, so a stalled reactor says nothing about the bus. It gets additional time to
            // be detected first.
            let limit = stall + 4 * tick;
            let answers = of_bus.check(count, !turns, awake, limit, "its own name does not answer");
            if advances && turns && answers {
                notify::feed_watchdog();
            }
        }
    }
}

/// Counts as long as the reactor's timer fires.
async fn count_timer(watchdog: Arc<Watchdog>) {
    loop {
        watchdog.reactor.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(watchdog.tick()).await;
    }
}

/// A watched part.
#[derive(Debug)]
struct Part {
    name: &'static str,
    seen: Option<u64>,
    still: Duration,
    reported: bool,
}

impl Part {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            seen: None,
            still: Duration::ZERO,
            reported: false,
        }
    }

    /// Checks a part, and reports to the journal when it stalls or resumes. An `excused` part need not make progress.
    fn check(
        &mut self,
        count: u64,
        excused: bool,
        awake: Duration,
        limit: Duration,
        doing: &str,
    ) -> bool {
        if excused || self.seen != Some(count) {
            if std::mem::take(&mut self.reported) {
                journal::stall_over(self.name, self.still.as_secs_f64());
            }
            self.seen = Some(count);
            self.still = Duration::ZERO;
            return true;
        }
        self.still += awake;
        if self.still >= limit && !std::mem::replace(&mut self.reported, true) {
            let seconds = self.still.as_secs_f64();
            journal::stalled(self.name, doing, seconds, &threads::describe());
        }
        !self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stalls_only_with_work_and_processor_time() {
        let second = Duration::from_secs(1);
        let mut part = Part::new("engine");
        let mut check = |count, idle, awake| part.check(count, idle, awake, 3 * second, "");
        assert!(check(7, false, second));
        assert!(check(7, false, second));
        assert!(check(7, false, second));
        assert!(!check(7, false, second), "three seconds without a step");
        assert!(!check(7, false, second));
        assert!(check(8, false, second), "it goes on");
        assert!(check(8, false, 2 * second));
        assert!(check(8, true, 9 * second), "nothing to do");
        assert!(check(8, false, 2 * second), "work again, from now on");
        assert!(!check(8, false, second));
    }
}
