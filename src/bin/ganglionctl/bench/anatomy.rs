//! Where a step's time goes, for each mode of the decode graph; without a profiler.
//!
//! Turns are timed as they run in earnest, one step ahead of the host. Where the device has a clock, a few more
//! steps then run one at a time: in some the first and the last operation note when they begin and end, in others all do.
//! What lies between operations is then the length of the former without what the latter were busy, for a note takes time
//! of its own between two operations.

use std::fmt::{self, Write as _};

use ganglion::engine::runner::{RunError, Runner};
use ganglion::graph::Mode;
use ganglion::tape::Noted;
use serde::Serialize;

use super::statistics::{median, percentile};
use super::turn::{Step, Turn};
use crate::offline;

/// Steps of which each operation notes its time, at most.
const MEASURED: usize = 50;

/// The device's own times within a step, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timeline {
    /// From the first operation's begin to the last one's end.
    whole: f64,
    /// At least one operation ran.
    busy: f64,
    operations: usize,
}

impl Timeline {
    /// `None` of no operations.
    #[allow(clippy::cast_precision_loss)] // differences of less than a minute
    fn new(spans: &[(u64, u64)]) -> Option<Self> {
        let first = spans.iter().map(|(begin, _)| *begin).min()?;
        let last = spans.iter().map(|(_, end)| *end).max()?;
        let busy: u64 = spans.iter().map(|(begin, end)| end - begin).sum();
        Some(Self {
            whole: (last - first) as f64 / 1e3,
            busy: busy as f64 / 1e3,
            operations: spans.len(),
        })
    }
}

/// The device's times in a mode, as medians of its steps; `None` where it has no clock.
#[derive(Clone, Debug, Default, Serialize)]
struct Device {
    /// Operations ran.
    gpu_microseconds: Option<f64>,
    /// Nothing ran between the first operation and the last.
    gap_microseconds: Option<f64>,
    /// Of the time from the first operation to the last.
    gap_percent: Option<f64>,
    gap_microseconds_per_node: Option<f64>,
}

/// The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Anatomy {
    mode: &'static str,
    /// The median of the repetitions.
    tokens_per_second: f64,
    step_milliseconds_p50: f64,
    step_milliseconds_p99: f64,
    /// Operations of the CPU's, on its backend.
    kernels_per_step: usize,
    #[serde(flatten)]
    device: Device,
    /// The engine's thread worked rather than waited.
    host_microseconds_per_token: f64,
    /// All threads of the process, those too that spin while they wait.
    cpu_microseconds_per_token: f64,
    /// While it decodes, of one core.
    cpu_percent: f64,
    /// The prompt, until its first token: the median of the repetitions.
    first_token_milliseconds: f64,
    /// The last recording; `None` in a mode that records nothing.
    recording_microseconds: Option<f64>,
}

impl Anatomy {
    /// What turns in one mode tell; `runner` has run the last of them just before.
    #[allow(clippy::cast_precision_loss)] // counts of tokens
    pub(super) fn new(mode: Mode, turns: &[Turn], runner: &mut Runner) -> Self {
        let steady = || turns.iter().flat_map(Turn::steady);
        let milliseconds = |step: &Step| step.whole.as_secs_f64() * 1e3;
        let tokens = turns.iter().map(Turn::generated).sum::<usize>() as f64;
        let cpu: f64 = turns.iter().map(|turn| turn.cpu.as_secs_f64()).sum();
        let decode: f64 = turns.iter().map(|turn| turn.decode.as_secs_f64()).sum();
        let host: f64 = steady().map(|step| step.host.as_secs_f64()).sum();
        let recording = runner.graph().last_recording().as_secs_f64();
        Self {
            mode: mode.name(),
            tokens_per_second: median(
                turns
                    .iter()
                    .map(|turn| turn.generated() as f64 / turn.decode.as_secs_f64()),
            ),
            step_milliseconds_p50: percentile(steady().map(milliseconds), 50),
            step_milliseconds_p99: percentile(steady().map(milliseconds), 99),
            kernels_per_step: runner.step_launches(),
            device: Device::default(),
            host_microseconds_per_token: 1e6 * host / steady().count() as f64,
            cpu_microseconds_per_token: 1e6 * cpu / tokens,
            cpu_percent: 100.0 * cpu / decode,
            first_token_milliseconds: median(
                turns.iter().map(|turn| turn.prompt.as_secs_f64() * 1e3),
            ),
            recording_microseconds: (runner.graph().nodes() > 0).then_some(recording * 1e6),
        }
    }

    /// Adds the device's own times; `runner` is in the mode.
    ///
    /// # Errors
    /// As `Runner::step`.
    pub(super) fn look_inside(
        &mut self,
        runner: &mut Runner,
        prompt: &[u32],
        generate: usize,
    ) -> Result<(), RunError> {
        let whole = timelines(runner, Noted::Step, prompt, generate)?;
        let inside = timelines(runner, Noted::Operations, prompt, generate)?;
        if let (false, Some(any)) = (whole.is_empty(), inside.first()) {
            let whole = median(whole.iter().map(|step| step.whole));
            let busy = median(inside.iter().map(|step| step.busy));
            self.device = Device::new(whole, busy, any.operations);
        }
        Ok(())
    }
}

impl Device {
    #[allow(clippy::cast_precision_loss)] // operations of a step
    fn new(whole: f64, busy: f64, operations: usize) -> Self {
        let gap = whole - busy;
        Self {
            gpu_microseconds: Some(busy),
            gap_microseconds: Some(gap),
            gap_percent: Some(100.0 * gap / whole),
            gap_microseconds_per_node: Some(gap / (operations - 1).max(1) as f64),
        }
    }
}

/// Of steps that are run one at a time after a prompt.
fn timelines(
    runner: &mut Runner,
    noted: Noted,
    prompt: &[u32],
    generate: usize,
) -> Result<Vec<Timeline>, RunError> {
    runner.measure(noted)?;
    offline::prefill(runner, prompt)?;
    // Its operations noted their times too.
    runner.take_spans()?;
    let mut steps = Vec::with_capacity(MEASURED);
    for _ in 0..generate.min(MEASURED) {
        runner.step(false)?;
        let spans: Vec<_> = runner.take_spans()?.into_iter().flatten().collect();
        steps.extend(Timeline::new(&spans));
    }
    // The first one records.
    if steps.len() > 1 {
        steps.remove(0);
    }
    Ok(steps)
}

/// What a column is called, and its figure of a mode.
type Column = (&'static str, fn(&Anatomy) -> Option<String>);

/// A table, a row for each mode. What has a figure in none of them has no column.
pub(super) fn table(modes: &[Anatomy], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let columns: [Column; 13] = [
        ("tok/s", |row| figure(row.tokens_per_second, 1)),
        ("p50 ms", |row| figure(row.step_milliseconds_p50, 3)),
        ("p99 ms", |row| figure(row.step_milliseconds_p99, 3)),
        ("kernels", |row| Some(row.kernels_per_step.to_string())),
        ("GPU us", |row| figure(row.device.gpu_microseconds, 1)),
        ("gap us", |row| figure(row.device.gap_microseconds, 1)),
        ("gap %", |row| figure(row.device.gap_percent, 1)),
        ("a node", |row| {
            figure(row.device.gap_microseconds_per_node, 3)
        }),
        ("host us", |row| figure(row.host_microseconds_per_token, 1)),
        ("CPU us", |row| figure(row.cpu_microseconds_per_token, 1)),
        ("CPU %", |row| figure(row.cpu_percent, 1)),
        ("first ms", |row| figure(row.first_token_milliseconds, 2)),
        ("record us", |row| figure(row.recording_microseconds, 1)),
    ];
    let mut lines = vec![format!("{:<16}", "mode")];
    lines.extend(modes.iter().map(|row| format!("{:<16}", row.mode)));
    for (heading, cell) in columns {
        let cells: Vec<_> = modes.iter().map(cell).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let cells = cells.iter().map(|cell| cell.as_deref().unwrap_or("-"));
        let column: Vec<_> = [heading].into_iter().chain(cells).collect();
        let width = column.iter().map(|cell| cell.len()).max().unwrap_or(0);
        for (line, cell) in lines.iter_mut().zip(column) {
            write!(line, "  {cell:>width$}")?;
        }
    }
    lines.iter().try_for_each(|line| writeln!(f, "{line}"))
}

fn figure(value: impl Into<Option<f64>>, digits: usize) -> Option<String> {
    value.into().map(|value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_the_operations_leave_of_a_step() {
        // 3, 4 and 1 microseconds, with pauses of 0.5 and 1.5 between them.
        let spans = [(1_000, 4_000), (4_500, 8_500), (10_000, 11_000)];
        let step = Timeline::new(&spans).expect("operations ran");
        assert_eq!(step.operations, 3);
        let device = Device::new(step.whole, step.busy, step.operations);
        let times = [
            Some(step.whole),
            device.gpu_microseconds,
            device.gap_microseconds,
            device.gap_percent,
            device.gap_microseconds_per_node,
        ];
        let to_be = [10.0_f64, 8.0, 2.0, 20.0, 1.0].map(|time| Some(time.to_bits()));
        assert_eq!(times.map(|time| time.map(f64::to_bits)), to_be);
        assert_eq!(Timeline::new(&[]), None);
    }
}
