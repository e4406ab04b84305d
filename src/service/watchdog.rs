//! The watchdog: a plain thread that feeds systemd's while every part of the daemon gets on, and else names the one that
//! does not.
//!
//! It waits for nothing that it watches: it looks at counters, and needs neither engine nor reactor to do so. It ends
//! nothing itself; systemd does, once it is no longer fed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::{notify, threads};
use crate::bus::Bus;
use crate::engine::Handle;
use crate::journal;

/// The least time between two looks.
const LEAST: Duration = Duration::from_millis(10);

/// What the parts stamp, and how long each may stand still.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// systemd's patience.
    period: Duration,
    stall_ms: AtomicU64,
    reactor: AtomicU64,
    bus: AtomicU64,
}

impl Watchdog {
    /// Starts it if systemd waits to be fed by this process.
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
        tokio::spawn(turn(watchdog.clone()));
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

    /// From now on a part may stand still for so long.
    pub(super) fn set_stall(&self, stall: Duration) {
        let millis = u64::try_from(stall.as_millis()).unwrap_or(u64::MAX);
        self.stall_ms.store(millis, Ordering::Relaxed);
    }

    fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms.load(Ordering::Relaxed))
    }

    /// Between two looks: often enough for systemd, and to tell times of this size apart.
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
            // While the whole process or the machine was stopped, nothing could get on: that time does not count.
            let awake = (now - before).min(2 * tick);
            before = now;

            let (stall, pulse) = (self.stall(), engine.progress().pulse());
            let count = pulse.advanced;
            let well = of_engine.look(count, pulse.idle, awake, stall, pulse.phase.name());
            let count = self.reactor.load(Ordering::Relaxed);
            let turns = of_reactor.look(count, false, awake, stall, "its timer does not fire");
            let count = self.bus.load(Ordering::Relaxed);
            // The reactor asks: while it stands still, nothing can be said of the bus. It is given time to say so first.
            let limit = stall + 4 * tick;
            let answers = of_bus.look(count, !turns, awake, limit, "its own name does not answer");
            if well && turns && answers {
                notify::well();
            }
        }
    }
}

/// Counts as long as the reactor's timer fires.
async fn turn(watchdog: Arc<Watchdog>) {
    loop {
        watchdog.reactor.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(watchdog.tick()).await;
    }
}

/// One of what is watched.
#[derive(Debug)]
struct Part {
    name: &'static str,
    seen: Option<u64>,
    still: Duration,
    told: bool,
}

impl Part {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            seen: None,
            still: Duration::ZERO,
            told: false,
        }
    }

    /// Whether it gets on; the journal is told when that changes. `excused` is one that need not.
    fn look(
        &mut self,
        count: u64,
        excused: bool,
        awake: Duration,
        limit: Duration,
        doing: &str,
    ) -> bool {
        if excused || self.seen != Some(count) {
            if std::mem::take(&mut self.told) {
                journal::stall_over(self.name, self.still.as_secs_f64());
            }
            self.seen = Some(count);
            self.still = Duration::ZERO;
            return true;
        }
        self.still += awake;
        if self.still >= limit && !std::mem::replace(&mut self.told, true) {
            let seconds = self.still.as_secs_f64();
            journal::stalled(self.name, doing, seconds, &threads::describe());
        }
        !self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stands_still_only_with_work_to_do_and_time_to_do_it() {
        let second = Duration::from_secs(1);
        let mut part = Part::new("engine");
        let mut look = |count, idle, awake| part.look(count, idle, awake, 3 * second, "");
        assert!(look(7, false, second));
        assert!(look(7, false, second));
        assert!(look(7, false, second));
        assert!(!look(7, false, second), "three seconds without a step");
        assert!(!look(7, false, second));
        assert!(look(8, false, second), "it goes on");
        assert!(look(8, false, 2 * second));
        assert!(look(8, true, 9 * second), "nothing to do");
        assert!(look(8, false, 2 * second), "work again, from now on");
        assert!(!look(8, false, second));
    }
}
