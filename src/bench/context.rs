//! The measurements after prompts of one length: turns, steps of several conversations, and the parts of a step's time.

use serde::Serialize;

use super::anatomy::Anatomy;
use super::ceiling::Ceiling;
use super::kinds::{self, StepKind};
use super::plan::Plan;
use super::steps::{Turn, Workload, begin, end, laps, median, steady};
use crate::runner::{RunError, Runner};
use crate::tape::Input;

/// The speeds of one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Prompt tokens per second.
    #[serde(rename = "prefill_tokens_per_second")]
    pub prefill: f64,
    /// Generated tokens per second.
    #[serde(rename = "decode_tokens_per_second")]
    pub decode: f64,
    /// Bytes per second that the steps had to move, in 10^9.
    #[serde(rename = "decode_gigabytes_per_second")]
    moved: f64,
}

impl Speed {
    #[allow(clippy::cast_precision_loss)] // counts of tokens and of bytes moved, shown to three digits
    fn of(turn: &Turn, prompt: usize) -> Self {
        Self {
            prefill: prompt as f64 / turn.prompt,
            decode: turn.generated() / turn.decode,
            moved: turn.bytes as f64 / turn.decode / 1e9,
        }
    }

    /// Picks each figure separately: a repetition may be the best in one and not in another.
    fn each(speeds: &[Self], pick: impl Fn(Vec<f64>) -> f64) -> Self {
        let pick = |figure: fn(&Self) -> f64| pick(speeds.iter().map(figure).collect());
        Self {
            prefill: pick(|speed| speed.prefill),
            decode: pick(|speed| speed.decode),
            moved: pick(|speed| speed.moved),
        }
    }
}

/// The steps of several conversations together. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
struct Concurrent {
    rows: usize,
    /// The median of the steps.
    step_milliseconds: f64,
    /// The tokens per second of all rows together.
    tokens_per_second: f64,
    /// The duration of a step relative to the first number of rows in the list.
    times_the_first: f64,
    /// The operations of a step of several rows.
    operations: Vec<StepKind>,
}

impl Concurrent {
    /// Times steps of conversations with different prompts of equal length; `first` is the first result in the list.
    #[allow(clippy::cast_precision_loss)] // at most eight rows
    fn time(
        runner: &mut Runner,
        rows: usize,
        work: Workload<'_>,
        first: Option<&Self>,
    ) -> Result<Self, RunError> {
        let entries = begin(runner, rows, work)?;
        let more = |at| at + 1 < work.generate;
        let laps = laps(work.generate, |at| runner.step_rows(&entries, more(at)))?;
        end(runner, &entries);
        let step = median(steady(&laps).iter().map(|(lap, _)| lap.as_secs_f64()));
        let step_milliseconds = step * 1e3;
        let first = first.map_or(step_milliseconds, |first| first.step_milliseconds);
        Ok(Self {
            rows,
            step_milliseconds,
            tokens_per_second: rows as f64 / step,
            times_the_first: step_milliseconds / first,
            operations: Vec::new(),
        })
    }
}

/// The kernels that implement an operation. The keys are stable: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct OperationKernels {
    operation: &'static str,
    of_a_prompt: Vec<String>,
    of_a_step: Vec<String>,
}

impl OperationKernels {
    /// Lists the operations in order of their first occurrence.
    fn of(prompt: &[(&'static str, String)], step: &[(&'static str, String)]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (operation, _) in prompt.iter().chain(step) {
            if all.iter().all(|one| one.operation != *operation) {
                all.push(Self {
                    operation,
                    of_a_prompt: kernels(prompt, operation),
                    of_a_step: kernels(step, operation),
                });
            }
        }
        all
    }
}

/// Returns the kernels of an operation, each once.
fn kernels(all: &[(&str, String)], operation: &str) -> Vec<String> {
    let mut kernels: Vec<String> = Vec::new();
    for (_, kernel) in all.iter().filter(|(of, _)| *of == operation) {
        if !kernels.contains(kernel) {
            kernels.push(kernel.clone());
        }
    }
    kernels
}

/// The measurements after prompts of one length. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// The tokens of the prompt.
    pub prompt: usize,
    /// Kernels, or operations of the CPU backend, in a replayed step; `None` without replay.
    step_nodes: Option<usize>,
    /// The repetitions in the first mode.
    repetitions: Vec<Speed>,
    pub best: Speed,
    median: Speed,
    modes: Vec<Anatomy>,
    /// The results for each number of concurrent conversations.
    rows: Vec<Concurrent>,
    /// The operations of a step of one conversation.
    pub operations: Vec<StepKind>,
    /// The kernels that a GPU uses.
    kernels: Vec<OperationKernels>,
    /// The best decode bandwidth relative to sequential reads (CPU backend).
    percent_of_read: Option<f64>,
    /// The best decode bandwidth relative to copies (CUDA backend).
    percent_of_copy: Option<f64>,
}

impl Context {
    /// Times turns in each mode, and steps of several conversations.
    pub(super) fn time(runner: &mut Runner, prompt: &[u32], plan: &Plan) -> Result<Self, RunError> {
        let work = plan.workload(prompt);
        let mut repetitions = Vec::new();
        let mut step_nodes = None;
        let mut modes = Vec::new();
        for &mode in &plan.modes {
            runner.set_graph_mode(mode);
            let turns = (0..plan.reps).map(|_| Turn::run(runner, work));
            let turns = turns.collect::<Result<Vec<_>, _>>()?;
            if modes.is_empty() {
                let speeds = turns.iter().map(|turn| Speed::of(turn, prompt.len()));
                repetitions = speeds.collect();
                step_nodes = Some(runner.graph().nodes()).filter(|nodes| *nodes > 0);
            }
            modes.push(Anatomy::new(mode, &turns, runner));
        }
        runner.set_graph_mode(plan.modes[0]);
        let mut rows: Vec<Concurrent> = Vec::new();
        for number in &plan.rows {
            let number = usize::from(*number);
            rows.push(Concurrent::time(runner, number, work, rows.first())?);
        }
        Ok(Self {
            prompt: prompt.len(),
            step_nodes,
            best: Speed::each(&repetitions, |all| all.into_iter().fold(0.0, f64::max)),
            median: Speed::each(&repetitions, median),
            repetitions,
            modes,
            rows,
            operations: Vec::new(),
            kernels: Vec::new(),
            percent_of_read: None,
            percent_of_copy: None,
        })
    }

    /// Adds the parts of a step's time. Timestamps slow the runner down, so this follows all other measurements.
    pub(super) fn measure_operations(
        &mut self,
        runner: &mut Runner,
        prompt: &[u32],
        plan: &Plan,
    ) -> Result<(), RunError> {
        let work = plan.workload(prompt);
        // Without a device clock, the steps' own times are the only ones.
        if runner.executor().multiprocessors().is_some() {
            for (&mode, row) in plan.modes.iter().zip(&mut self.modes) {
                runner.set_graph_mode(mode);
                row.measure_operations(runner, work)?;
            }
            let of_a_prompt = runner.kernels(Input::Prompt, prompt.len());
            self.kernels = OperationKernels::of(&of_a_prompt, &runner.kernels(Input::Step, 1));
        }
        runner.set_graph_mode(plan.modes[0]);
        self.operations = kinds::measure(runner, 1, work)?;
        for row in self.rows.iter_mut().filter(|row| row.rows > 1) {
            row.operations = kinds::measure(runner, row.rows, work)?;
        }
        Ok(())
    }

    /// Adds the ratios to the machine's memory bandwidth.
    pub(super) fn compare_with_memory(&mut self, ceiling: Ceiling) {
        let speed = ceiling.bytes_per_second;
        let percent = Some(100.0 * self.best.moved * 1e9 / speed);
        self.percent_of_read = percent.filter(|_| !ceiling.copies);
        self.percent_of_copy = percent.filter(|_| ceiling.copies);
        let of_rows = self.rows.iter_mut().flat_map(|row| &mut row.operations);
        for kind in of_rows.chain(&mut self.operations) {
            kind.compare_with_memory(speed);
        }
    }
}
