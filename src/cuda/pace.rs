//! The time to launch the next step: as late as possible without the device becoming idle, because arriving requests
//! wait for launched steps. This module computes times; `Cuda` waits and launches.

use std::time::{Duration, Instant};

use crate::device::STEP_ROWS;

/// How long before the end of a step the next one is launched: the initial and the shortest lead.
const FIRST: Duration = Duration::from_micros(400);
const LEAST: Duration = Duration::from_micros(100);
/// The longest lead. A host that is later than this is so by accident.
const MOST: Duration = Duration::from_millis(4);
/// After this many steps in time, the lead becomes shorter. One of twice as many steps may then be late, so that the
/// device idles for a moment. Without this, arriving requests would wait longer in total.
const ENOUGH: u32 = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the oldest step in flight began, as far as the host knows.
    begun: Option<Instant>,
    /// The durations of steps of 1, 2, 4 and more rows.
    takes: [Option<Duration>; STEP_ROWS.ilog2() as usize + 1],
    lead: Duration,
    /// Steps since the last late launch or the last change of the lead.
    in_time: u32,
    /// How long the host takes to return after a step has begun, and whether it will return.
    returns: Duration,
    is_away: bool,
    /// How long the host has waited since the last token in order to launch later.
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
    /// Notes that a step was launched on an idle device.
    pub(super) fn begins(&mut self, now: Instant) {
        self.begun = Some(now);
        self.is_away = false;
    }

    /// Notes that a step continues after preemption, with `fraction` of it done.
    pub(super) fn resumes(&mut self, rows: usize, fraction: f32, now: Instant) {
        let before = self.takes[size(rows)].map(|takes| takes.mul_f32(fraction));
        self.begun = before.and_then(|before| now.checked_sub(before));
        self.is_away = false;
    }

    /// Notes that the host has returned after a step has begun.
    pub(super) fn arrives(&mut self, now: Instant) {
        if let Some(begun) = self.begun
            && std::mem::take(&mut self.is_away)
        {
            let took = now.saturating_duration_since(begun).min(MOST);
            let less = self.returns.saturating_sub(took) / 16;
            self.returns = took.max(self.returns.saturating_sub(less));
        }
    }

    /// Whether `fraction` of a step takes until the host returns.
    pub(super) fn lasts(&self, rows: usize, fraction: f32) -> bool {
        let takes = self.takes[size(rows)];
        takes.is_some_and(|takes| takes.mul_f32(fraction) > self.returns + LEAST)
    }

    /// Notes that the tokens of a step have arrived, so that the next step begins.
    pub(super) fn ended(&mut self, rows: usize, now: Instant) {
        let begun = self.begun.replace(now);
        self.is_away = true;
        let took = begun.map(|begun| now.saturating_duration_since(begun));
        let takes = &mut self.takes[size(rows)];
        // A step that is short is exact. A step can be long for another reason, so it counts less.
        *takes = match (*takes, took) {
            (Some(known), Some(took)) if took > known => {
                Some(known + took.saturating_sub(known) / 16)
            }
            (known, took) => took.or(known),
        };
    }

    /// The time to launch the work after `fraction` of a step; `None` is at once.
    pub(super) fn due(&self, rows: usize, fraction: f32) -> Option<Instant> {
        let (begun, takes) = (self.begun?, self.takes[size(rows)]?);
        Some(begun + takes.mul_f32(fraction).saturating_sub(self.lead))
    }

    /// Notes a launch, which is `late` if the work before it had ended.
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
    fn a_step_is_launched_shortly_before_the_running_one_ends() {
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
        // A host that is late launches earlier, up to at once, and later again after many steps in time.
        (0..20).for_each(|_| pace.launched(true));
        assert_eq!(due(&pace), Duration::ZERO);
        (0..9000).for_each(|_| pace.launched(false));
        assert_eq!(due(&pace), us(1200));
        // The host returns after a while, and launched work lasts until then.
        pace.arrives(now + us(300));
        assert!(pace.lasts(1, 0.5) && !pace.lasts(1, 0.25));
        assert_eq!(pace.due(1, 0.5).expect("it is known") - now, us(550));
        pace.resumes(1, 0.5, now);
        assert_eq!(due(&pace), us(550));
        pace.begins(now);
        // A long step changes little, and a short one much.
        now += us(20_000);
        pace.ended(1, now);
        assert!(pace.due(1, 1.0).expect("it is known") - now < us(2500));
        now += us(800);
        pace.ended(1, now);
        assert_eq!(pace.due(1, 1.0).expect("it is known") - now, us(700));
    }
}
