//! The energy that the module has used: the integral of its input power.
//!
//! One thread samples the power. Any thread reads the energy without waiting: between two samples the last power holds.

use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

/// How long a sample holds. Without a newer one the power is unknown afterwards.
const HOLDS: Duration = Duration::from_secs(1);

/// The energy up to the last sample, and the power from there on.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    joules: f64,
    watts: f64,
}

/// The energy since the first sample, without the time in which nothing was sampled.
#[derive(Debug, Default)]
pub struct EnergyMeter {
    sample: ArcSwapOption<Sample>,
}

/// A moment from which energy is counted.
#[derive(Clone, Copy, Debug)]
pub struct EnergyMark {
    at: Instant,
    joules: Option<f64>,
}

impl EnergyMeter {
    /// Adds a sample, which is later than all others.
    pub fn sample(&self, at: Instant, watts: f64) {
        let before = self.sample.load();
        let joules = before.as_ref().map_or(0.0, |before| {
            let passed = at.saturating_duration_since(before.at);
            let mean = f64::midpoint(before.watts, watts);
            let more = if passed > HOLDS {
                0.0
            } else {
                mean * passed.as_secs_f64()
            };
            before.joules + more
        });
        self.sample.store(Some(Sample { at, joules, watts }.into()));
    }

    /// Returns all energy that was sampled; `None` before the first sample.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        self.sample.load().as_ref().map(|sample| sample.joules)
    }

    /// Returns the energy up to `at`; `None` if the power at that time is unknown.
    fn joules(&self, at: Instant) -> Option<f64> {
        let sample = self.sample.load();
        let sample = sample.as_ref()?;
        let passed = at.saturating_duration_since(sample.at);
        (passed <= HOLDS).then(|| sample.joules + sample.watts * passed.as_secs_f64())
    }

    /// Returns a mark at `at`.
    #[must_use]
    pub fn mark(&self, at: Instant) -> EnergyMark {
        let joules = self.joules(at);
        EnergyMark { at, joules }
    }

    /// Returns the energy from `since` to `at`, and moves the mark there. If the power at the mark was unknown, the power at
    /// `at` stands for all of the time.
    pub fn since(&self, since: &mut EnergyMark, at: Instant) -> Option<f64> {
        let before = std::mem::replace(since, self.mark(at));
        let now = since.joules?;
        Some(before.joules.map_or_else(
            || {
                let sample = self.sample.load();
                let watts = sample.as_ref().map_or(0.0, |sample| sample.watts);
                watts * at.saturating_duration_since(before.at).as_secs_f64()
            },
            |before| now - before,
        ))
    }
}
