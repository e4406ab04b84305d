//! When a step is launched behind one that runs: as late as it can be without the device idling, as whoever comes before that does
//! not wait for it too. It keeps the times; what waits and launches is `Cuda`.

use std::time::{Duration, Instant};

use crate::device::STEP_ROWS;

/// How long before the end of a step the next one is launched: at first, and at least.
const FIRST: Duration = Duration::from_micros(400);
const LEAST: Duration = Duration::from_micros(100);
/// At most: a host that is later than this is so by accident.
const MOST: Duration = Duration::from_millis(4);
/// After so many steps that were launched in time the next ones are launched a little later: one in twice as many may come too late,
/// for which the device idles a moment, which is less than what all who come would wait for if none did.
const ENOUGH: u32 = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the oldest step whose tokens have not been taken began, as far as the host can tell.
    begun: Option<Instant>,
    /// What steps of 1, 2, 4 and more rows take.
    takes: [Option<Duration>; STEP_ROWS.ilog2() as usize + 1],
    lead: Duration,
    /// Steps since one was launched too late, or since the lead has become shorter.
    in_time: u32,
    /// How long the host takes to come back for a step that has begun, and whether it is to.
    returns: Duration,
    is_away: bool,
    /// The host has waited since the last token only so as to launch later.
    pub(super) waited: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            begun: None,
            takes: Default::default(),
            lead: FIRST,
            in_time: 0,
            returns: Duration::ZERO,
            is_away: false,
            waited: Duration::ZERO,
        }
    }
}

impl Pace {
    /// A step was launched while nothing ran.
    pub(super) fn begins(&mut self, now: Instant) {
        self.begun = Some(now);
        self.is_away = false;
    }

    /// A step of so many rows that was left goes on where so much of it had been launched.
    pub(super) fn resumes(&mut self, rows: usize, fraction: f32, now: Instant) {
        let before = self.takes[size(rows)].map(|takes| takes.mul_f32(fraction));
        self.begun = before.and_then(|before| now.checked_sub(before));
        self.is_away = false;
    }

    /// The host is there for a step that has begun.
    pub(super) fn arrives(&mut self, now: Instant) {
        if let Some(begun) = self.begun
            && std::mem::take(&mut self.is_away)
        {
            let took = now.saturating_duration_since(begun).min(MOST);
            let less = self.returns.saturating_sub(took) / 16;
            self.returns = took.max(self.returns.saturating_sub(less));
        }
    }

    /// Whether so much of a step of so many rows runs until the host comes back for it.
    pub(super) fn lasts(&self, rows: usize, fraction: f32) -> bool {
        let takes = self.takes[size(rows)];
        takes.is_some_and(|takes| takes.mul_f32(fraction) > self.returns + LEAST)
    }

    /// The tokens of a step of so many rows have come: what is behind it begins.
    pub(super) fn ended(&mut self, rows: usize, now: Instant) {
        let begun = self.begun.replace(now);
        self.is_away = true;
        let took = begun.map(|begun| now.saturating_duration_since(begun));
        let takes = &mut self.takes[size(rows)];
        // Too short is in time. What took long for another reason counts for little.
        *takes = match (*takes, took) {
            (Some(known), Some(took)) if took > known => {
                Some(known + took.saturating_sub(known) / 16)
            }
            (known, took) => took.or(known),
        };
    }

    /// When what is behind so much of a step of so many rows is to be launched; `None`: at once.
    pub(super) fn due(&self, rows: usize, fraction: f32) -> Option<Instant> {
        let (begun, takes) = (self.begun?, self.takes[size(rows)]?);
        Some(begun + takes.mul_f32(fraction).saturating_sub(self.lead))
    }

    /// It was launched, but `late` where what was before it had ended by then.
    pub(super) fn launched(&mut self, late: bool) {
        self.in_time += 1;
        if late {
            self.in_time = 0;
            self.lead = (self.lead + self.lead / 8).min(MOST);
        } else if self.in_time == ENOUGH {
            self.in_time = 0;
            self.lead = self.lead.saturating_sub(self.lead / 16).max(LEAST);
        }
    }
}

fn size(rows: usize) -> usize {
    rows.clamp(1, STEP_ROWS).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_launched_shortly_before_the_one_that_runs_ends() {
        let (us, mut now) = (Duration::from_micros, Instant::now());
        let mut pace = Pace::default();
        pace.begins(now);
        assert_eq!(pace.due(1, 1.0), None, "nothing is known yet");
        for _ in 0..100 {
            now += us(1300);
            pace.ended(1, now);
            pace.launched(false);
        }
        assert_eq!(pace.due(2, 1.0), None, "nor of two rows");
        let due = |pace: &Pace| pace.due(1, 1.0).expect("it is known") - now;
        assert!(due(&pace) > us(900) && due(&pace) <= us(1100));
        // A host that comes too late begins earlier, up to at once, and later again after many steps in time.
        (0..20).for_each(|_| pace.launched(true));
        assert_eq!(due(&pace), Duration::ZERO);
        (0..9000).for_each(|_| pace.launched(false));
        assert_eq!(due(&pace), us(1200));
        // The host comes back after a while, and what is launched by then lasts until then.
        pace.arrives(now + us(300));
        assert!(pace.lasts(1, 0.5) && !pace.lasts(1, 0.25));
        assert_eq!(pace.due(1, 0.5).expect("it is known") - now, us(550));
        pace.resumes(1, 0.5, now);
        assert_eq!(due(&pace), us(550));
        pace.begins(now);
        // One that took long moves little, one that did not counts.
        now += us(20_000);
        pace.ended(1, now);
        assert!(pace.due(1, 1.0).expect("it is known") - now < us(2500));
        now += us(800);
        pace.ended(1, now);
        assert_eq!(pace.due(1, 1.0).expect("it is known") - now, us(700));
    }
}
