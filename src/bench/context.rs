//! What was measured after prompts of one length: turns, conversations that step together, and where a step's time goes.

use serde::Serialize;

use super::Plan;
use super::anatomy::Anatomy;
use super::ceiling::Ceiling;
use super::kinds::{self, Kind};
use super::steps::{Turn, Workload, begin, end, laps, median, steady};
use crate::runner::{RunError, Runner};
use crate::tape::Input;

/// What one repetition reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// The prompt's tokens are read at so many a second.
    #[serde(rename = "prefill_tokens_per_second")]
    pub prefill: f64,
    /// Tokens are generated at so many a second.
    #[serde(rename = "decode_tokens_per_second")]
    pub decode: f64,
    /// The steps had to move so many bytes a second, in 10^9.
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

    /// Each figure by itself: a repetition may be the best of one and not of another.
    fn each(speeds: &[Self], pick: impl Fn(Vec<f64>) -> f64) -> Self {
        let pick = |figure: fn(&Self) -> f64| pick(speeds.iter().map(figure).collect());
        Self {
            prefill: pick(|speed| speed.prefill),
            decode: pick(|speed| speed.decode),
            moved: pick(|speed| speed.moved),
        }
    }
}

/// Several conversations that step together: what a step of so many rows takes. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
struct Together {
    rows: usize,
    /// It is the median of the steps.
    step_milliseconds: f64,
    /// All rows together generate so many.
    tokens_per_second: f64,
    /// A step takes so many times as long as one of the first in the list.
    times_the_first: f64,
    /// A step of several rows spends its time on these.
    operations: Vec<Kind>,
}

impl Together {
    /// Times steps of conversations of other prompts each, as long as the one given; `first` is the first in the list.
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

/// The kernels that an operation is, wherever it comes. The keys are stable: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Chosen {
    operation: &'static str,
    of_a_prompt: Vec<String>,
    of_a_step: Vec<String>,
}

impl Chosen {
    /// The operations are in the order in which they come.
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

/// The kernels of an operation, each once.
fn kernels(all: &[(&str, String)], operation: &str) -> Vec<String> {
    let mut kernels: Vec<String> = Vec::new();
    for (_, kernel) in all.iter().filter(|(of, _)| *of == operation) {
        if !kernels.contains(kernel) {
            kernels.push(kernel.clone());
        }
    }
    kernels
}

/// What was measured after prompts of one length. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// It has so many tokens.
    pub prompt: usize,
    /// Kernels, or operations of the CPU's, that a replayed step launches; `None` where none is replayed.
    step_nodes: Option<usize>,
    /// They ran in the first mode.
    repetitions: Vec<Speed>,
    pub best: Speed,
    median: Speed,
    modes: Vec<Anatomy>,
    /// Several conversations ran at once, for each number of rows that was asked for.
    rows: Vec<Together>,
    /// A step of one conversation spends its time on these.
    pub operations: Vec<Kind>,
    /// Kernels that were chosen, of a GPU's.
    kernels: Vec<Chosen>,
    /// The best decode moves so much of what this machine reads (CPU backend).
    percent_of_read: Option<f64>,
    /// The best decode moves so much of what the GPU reads and writes while it copies (CUDA backend).
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
        let mut rows: Vec<Together> = Vec::new();
        for number in &plan.rows {
            let number = usize::from(*number);
            rows.push(Together::time(runner, number, work, rows.first())?);
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

    /// Adds where a step's time goes. That costs a little from then on, so it comes after all that is only timed.
    pub(super) fn look_inside(
        &mut self,
        runner: &mut Runner,
        prompt: &[u32],
        plan: &Plan,
    ) -> Result<(), RunError> {
        let work = plan.workload(prompt);
        // A CPU has no clock but the one that has timed the steps.
        if runner.executor().multiprocessors().is_some() {
            for (&mode, row) in plan.modes.iter().zip(&mut self.modes) {
                runner.set_graph_mode(mode);
                row.look_inside(runner, work)?;
            }
            let of_a_prompt = runner.kernels(Input::Prompt, prompt.len());
            self.kernels = Chosen::of(&of_a_prompt, &runner.kernels(Input::Step, 1));
        }
        runner.set_graph_mode(plan.modes[0]);
        self.operations = kinds::measure(runner, 1, work)?;
        for row in self.rows.iter_mut().filter(|row| row.rows > 1) {
            row.operations = kinds::measure(runner, row.rows, work)?;
        }
        Ok(())
    }

    /// Adds what the machine's memory would allow.
    pub(super) fn hold_against(&mut self, ceiling: Ceiling) {
        let speed = ceiling.bytes_per_second;
        let percent = Some(100.0 * self.best.moved * 1e9 / speed);
        self.percent_of_read = percent.filter(|_| !ceiling.copies);
        self.percent_of_copy = percent.filter(|_| ceiling.copies);
        let of_rows = self.rows.iter_mut().flat_map(|row| &mut row.operations);
        for kind in of_rows.chain(&mut self.operations) {
            kind.hold_against(speed);
        }
    }
}
