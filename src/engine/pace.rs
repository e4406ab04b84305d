//! How late a step may be launched behind the one that runs: whoever comes before that waits for one step less, and the device has
//! never nothing to do.

use std::time::{Duration, Instant};

/// So much of a step is left when the one behind it is launched, at least; and one part in so many.
const LEAST: Duration = Duration::from_micros(300);
const PART: u32 = 4;
/// One part in so many of what a step takes longer than was known counts.
const SLOW: u32 = 8;

/// When steps have ended that ran one behind another.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last tokens came, if nothing but steps was since.
    last: Option<Instant>,
    /// What a step of so many rows takes.
    step: Option<(usize, Duration)>,
}

impl Pace {
    /// The tokens of a step of so many rows have come now; `behind` says that it was launched while another ran.
    pub(super) fn stepped(&mut self, rows: usize, behind: bool, now: Instant) {
        let last = self.last.replace(now).filter(|_| behind);
        let Some(took) = last.map(|last| now.saturating_duration_since(last)) else {
            return;
        };
        let known = self.step.filter(|(of, _)| *of == rows);
        let step = match known {
            // Where the device had to wait, it was not the step that took so long.
            Some((_, step)) => took.min(step + took.saturating_sub(step) / SLOW),
            None => took,
        };
        self.step = Some((rows, step));
    }

    /// Something else than a step runs.
    pub(super) fn interrupted(&mut self) {
        self.last = None;
    }

    /// Until when the launch behind a step of so many rows may wait, which began when the last tokens came; `None`: it may not.
    pub(super) fn due(&self, rows: usize) -> Option<Instant> {
        let (_, step) = self.step.filter(|(of, _)| *of == rows)?;
        let wait = step.checked_sub(LEAST.max(step / PART))?;
        Some(self.last? + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    #[test]
    fn a_launch_waits_only_behind_steps_that_are_known() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let mut steps = |pace: &mut Pace, rows, behind, took| {
            now += us(took);
            pace.stepped(rows, behind, now);
            pace.due(rows).map(|due| due - now)
        };
        assert_eq!(steps(&mut pace, 2, false, 9000), None);
        assert_eq!(steps(&mut pace, 2, true, 2000), Some(us(1500)));
        assert_eq!(pace.due(3), None);
        pace.interrupted();
        assert_eq!(pace.due(2), None);
        assert_eq!(steps(&mut pace, 2, true, 50_000), Some(us(1500)));
        assert_eq!(
            steps(&mut pace, 2, true, 1000),
            Some(us(700)),
            "it is quick"
        );
        assert_eq!(steps(&mut pace, 4, true, 40_000), Some(us(30_000)));
        assert_eq!(
            steps(&mut pace, 4, true, 200),
            None,
            "there is no time for it"
        );
    }

    /// A host that launches late has the device wait, and does not take that for the time of a step for long.
    #[test]
    fn a_launch_that_came_too_late_comes_sooner_again() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.stepped(1, false, now);
        now += us(3000);
        pace.stepped(1, true, now);
        // In truth it takes 1,300.
        for _ in 0..20 {
            let launched = pace.due(1).map_or(now, |due| due.max(now));
            now = launched.max(now + us(1300));
            pace.stepped(1, true, now);
        }
        let due = pace.due(1).expect("it is known") - now;
        assert!(due <= us(1000), "{due:?}");
    }
}
