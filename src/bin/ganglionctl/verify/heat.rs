//! Keeps answers running for a long time, and reads the board meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use ganglion::board::{BoardState, Sensors};
use serde::{Deserialize, Serialize};

use super::checks::HEATED;
use super::daemon::Daemon;
use super::found::Results;

/// Answers at the same time.
const ANSWERS: usize = 4;
/// Tokens of each answer.
const TOKENS: u32 = 128;
/// The part of the first speed that is left at the end, at least.
const KEPT: f64 = 0.9;
/// The first and the last part of the time, whose speeds are compared.
const PART: usize = 6;

/// The speed of a round of answers, and the board after it. The keys are stable: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Since the beginning.
    seconds: f64,
    tokens_per_second: f64,
    celsius: Option<f64>,
    gpu_megahertz: Option<f64>,
    watts: Option<f64>,
    alerts: Vec<String>,
    /// How often the supply has lowered the clocks since the board has booted.
    throttled: u64,
}

impl Sample {
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    fn of(start: Instant, speed: f64, state: BoardState) -> Self {
        let counts = state.throttling.unwrap_or_default().named();
        let clock = state.gpu.and_then(|gpu| gpu.now);
        Self {
            seconds: start.elapsed().as_secs_f64(),
            tokens_per_second: speed,
            celsius: state.hottest().map(|zone| zone.celsius),
            gpu_megahertz: clock.map(|hertz| hertz as f64 / 1e6),
            watts: state.watts,
            throttled: counts.iter().map(|(_, count)| count).sum(),
            alerts: state.alerts,
        }
    }
}

/// Runs answers for `time`, and returns a reading after each round.
pub(super) async fn run(daemon: &Daemon, time: Duration, results: &mut Results) -> Vec<Sample> {
    let sensors = Sensors::find(Path::new("/"));
    let mut samples = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time || samples.is_empty() {
        let begun = Instant::now();
        let answers = (0..ANSWERS).map(|_| daemon.story(TOKENS));
        let tokens: u64 = match try_join_all(answers).await {
            Ok(tokens) => tokens.iter().sum(),
            Err(failure) => {
                results.fail(HEATED, failure.message);
                return samples;
            }
        };
        #[allow(clippy::cast_precision_loss)] // a few hundred
        let speed = tokens as f64 / begun.elapsed().as_secs_f64();
        samples.push(Sample::of(start, speed, sensors.read()));
    }
    let (passed, observed) = judge(&samples);
    results.judge(HEATED, passed, observed);
    samples
}

/// Returns whether the board stayed as fast as at the beginning, and what was seen.
fn judge(samples: &[Sample]) -> (bool, String) {
    let part = (samples.len() / PART).max(1);
    let (first, last) = (&samples[..part], &samples[samples.len() - part..]);
    #[allow(clippy::cast_precision_loss)] // a few thousand
    let mean = |samples: &[Sample]| {
        let sum: f64 = samples.iter().map(|sample| sample.tokens_per_second).sum();
        sum / samples.len() as f64
    };
    let (before, after) = (mean(first), mean(last));
    let throttled = last[part - 1].throttled.saturating_sub(first[0].throttled);
    let mut alerts: Vec<&str> = Vec::new();
    for alert in samples.iter().flat_map(|sample| &sample.alerts) {
        if !alerts.contains(&&**alert) {
            alerts.push(alert);
        }
    }
    let minutes = last[part - 1].seconds / 60.0;
    let mut observed =
        format!("{minutes:.1} minutes: {before:.1} tok/s at first, {after:.1} at the end");
    let celsius = samples.iter().filter_map(|sample| sample.celsius);
    if let Some(most) = celsius.reduce(f64::max) {
        observed = format!("{observed}, {most:.0} C at most");
    }
    if throttled > 0 {
        observed = format!("{observed}, throttled {throttled} times");
    }
    if !alerts.is_empty() {
        observed = format!("{observed}, {}", alerts.join(", "));
    }
    let passed = after >= KEPT * before && throttled == 0 && alerts.is_empty();
    (passed, observed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u32, speed: f64) -> Sample {
        Sample {
            seconds: f64::from(at),
            tokens_per_second: speed,
            celsius: Some(60.0),
            gpu_megahertz: None,
            watts: None,
            alerts: Vec::new(),
            throttled: 0,
        }
    }

    #[test]
    fn a_board_that_slows_down_or_alerts_fails() {
        let steady: Vec<_> = (0..12).map(|at| sample(at, 30.0)).collect();
        assert!(judge(&steady).0, "{:?}", judge(&steady));
        let slowing: Vec<_> = (0..12).map(|at| sample(at, 30.0 - f64::from(at))).collect();
        assert!(!judge(&slowing).0);
        let mut hot = steady.clone();
        hot[5].alerts.push("gpu-throttle-alert".into());
        assert!(!judge(&hot).0);
        let mut weak = steady;
        weak[11].throttled = 2;
        assert!(!judge(&weak).0);
    }
}
