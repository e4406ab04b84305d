//! The parts of a step's time in each mode of the decode graph, without a profiler.
//!
//! Turns are timed in normal operation, one step ahead of the host. Where the device has a clock, a few more steps then
//! run one at a time. In some of them only the first and the last operation take timestamps, in the others all do. The
//! time between operations is the length of the former minus the busy time of the latter, because a timestamp takes
//! time of its own.

use serde::Serialize;

use super::steps::{Spans, Turn, Workload, median, percentile, timed_steps};
use crate::executor::Timed;
use crate::graph::Mode;
use crate::runner::{RunError, Runner};

/// The device's times in a mode, as medians of its steps; `None` where it has no clock.
#[derive(Clone, Debug, Default, Serialize)]
struct Device {
    /// The time in which operations ran.
    gpu_microseconds: Option<f64>,
    /// The idle time between the first operation and the last.
    gap_microseconds: Option<f64>,
    /// The share of the idle time.
    gap_percent: Option<f64>,
    gap_microseconds_per_node: Option<f64>,
}

impl Device {
    /// `whole` are steps with timestamps at their ends, `inside` steps with timestamps at all operations.
    #[allow(clippy::cast_precision_loss)] // differences of less than a minute, and operations of a step
    fn new(whole: &[Spans], inside: &[Spans]) -> Self {
        let length = |step: &Spans| {
            let first = step.iter().flatten().map(|(begin, _)| *begin).min()?;
            let last = step.iter().flatten().map(|(_, end)| *end).max()?;
            Some((last - first) as f64 / 1e3)
        };
        let busy = |step: &Spans| {
            let times = step.iter().flatten().map(|(begin, end)| end - begin);
            times.sum::<u64>() as f64 / 1e3
        };
        let lengths: Vec<f64> = whole.iter().filter_map(length).collect();
        let operations = inside.iter().map(|step| step.iter().flatten().count());
        let operations = operations.max().unwrap_or(0);
        if lengths.is_empty() || operations == 0 {
            return Self::default();
        }
        let whole = median(lengths);
        let busy = median(inside.iter().map(busy));
        let gap = whole - busy;
        Self {
            gpu_microseconds: Some(busy),
            gap_microseconds: Some(gap),
            gap_percent: Some(100.0 * gap / whole),
            gap_microseconds_per_node: Some(gap / (operations - 1).max(1) as f64),
        }
    }
}

/// The times of one mode. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Anatomy {
    mode: &'static str,
    /// The median of the repetitions.
    tokens_per_second: f64,
    step_milliseconds_p50: f64,
    step_milliseconds_p99: f64,
    /// Operations, for the CPU backend.
    kernels_per_step: usize,
    #[serde(flatten)]
    device: Device,
    /// The time that the engine's thread worked, without its waiting.
    host_microseconds_per_token: f64,
    /// The processor time of all threads, including threads that spin.
    cpu_microseconds_per_token: f64,
    /// The share of one core that the process uses while it decodes.
    cpu_percent: f64,
    /// The time of a prompt until its first token; the median of the repetitions.
    first_token_milliseconds: f64,
    /// The duration of the last recording; `None` in a mode that records nothing.
    recording_microseconds: Option<f64>,
}

impl Anatomy {
    /// Evaluates turns in one mode; `runner` has run the last of them just before.
    #[allow(clippy::cast_precision_loss)] // counts of steps
    pub(super) fn new(mode: Mode, turns: &[Turn], runner: &mut Runner) -> Self {
        let sum = |of: fn(&Turn) -> f64| turns.iter().map(of).sum::<f64>();
        let middle = |of: fn(&Turn) -> f64| median(turns.iter().map(of));
        let steps: Vec<_> = turns.iter().flat_map(Turn::steady).collect();
        let whole = || steps.iter().map(|(whole, _)| 1e3 * whole);
        let host: f64 = steps.iter().map(|(_, host)| host).sum();
        let cpu = sum(|turn| turn.cpu);
        let recording = runner.graph().last_recording().as_secs_f64();
        Self {
            mode: mode.name(),
            tokens_per_second: middle(|turn| turn.generated() / turn.decode),
            step_milliseconds_p50: percentile(whole(), 50),
            step_milliseconds_p99: percentile(whole(), 99),
            kernels_per_step: runner.step_launches(),
            device: Device::default(),
            host_microseconds_per_token: 1e6 * host / steps.len() as f64,
            cpu_microseconds_per_token: 1e6 * cpu / sum(Turn::generated),
            cpu_percent: 100.0 * cpu / sum(|turn| turn.decode),
            first_token_milliseconds: middle(|turn| 1e3 * turn.prompt),
            recording_microseconds: (runner.graph().nodes() > 0).then_some(recording * 1e6),
        }
    }

    /// Adds the device's own times; `runner` is in the mode.
    pub(super) fn measure_operations(
        &mut self,
        runner: &mut Runner,
        work: Workload<'_>,
    ) -> Result<(), RunError> {
        let whole = timed_steps(runner, Timed::Step, 1, work)?;
        let inside = timed_steps(runner, Timed::Operations, 1, work)?;
        self.device = Device::new(&whole, &inside);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_step_without_its_operations() {
        // 3, 4 and 1 microseconds, with pauses of 0.5 and 1.5 between them.
        let spans = [(1_000, 4_000), (4_500, 8_500), (10_000, 11_000)];
        let step = vec![spans.map(Some).to_vec()];
        let device = Device::new(&step, &step);
        let times = [
            device.gpu_microseconds,
            device.gap_microseconds,
            device.gap_percent,
            device.gap_microseconds_per_node,
        ];
        let to_be = [8.0_f64, 2.0, 20.0, 1.0].map(|time| Some(time.to_bits()));
        assert_eq!(times.map(|time| time.map(f64::to_bits)), to_be);
        let nothing = vec![Vec::new()];
        assert_eq!(Device::new(&nothing, &nothing).gpu_microseconds, None);
    }
}
