//! What was measured after prompts of one length: turns, conversations that step together, and where a step's time goes.

use std::fmt;

use ganglion::engine::runner::{RunError, Runner};
use ganglion::executor::Executor;
use serde::Serialize;

use super::Arguments;
use super::anatomy::{self, Anatomy};
use super::ceiling::Ceiling;
use super::kinds::{self, Kind};
use super::statistics::median;
use super::together::{self, Together};
use super::turn::Turn;

/// What one repetition reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Speed {
    /// Tokens per second.
    #[serde(rename = "prefill_tokens_per_second")]
    pub(super) prefill: f64,
    /// Tokens per second.
    #[serde(rename = "decode_tokens_per_second")]
    pub(super) decode: f64,
    /// Bytes that the steps had to move, per second, in 10^9.
    #[serde(rename = "decode_gigabytes_per_second")]
    pub(super) moved: f64,
}

/// The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    /// Tokens.
    pub(super) prompt: usize,
    /// Kernels, or operations of the CPU's, that a replayed step launches; `None` where none is replayed.
    step_nodes: Option<usize>,
    /// In the first mode.
    repetitions: Vec<Speed>,
    pub(super) best: Speed,
    median: Speed,
    modes: Vec<Anatomy>,
    /// Of several conversations at once, for each number of rows that was asked for.
    rows: Vec<Together>,
    /// Of a step.
    pub(super) operations: Vec<Kind>,
    /// What the best decode moves, of what this machine reads (CPU backend).
    percent_of_read: Option<f64>,
    /// What the best decode moves, of what the GPU reads and writes while it copies (CUDA backend).
    percent_of_copy: Option<f64>,
}

impl Context {
    /// Times turns in each mode, and steps of several conversations.
    ///
    /// # Errors
    /// As `Runner::step`.
    pub(super) fn time(
        runner: &mut Runner,
        prompt: &[u32],
        Arguments {
            generate,
            reps,
            modes,
            rows,
            ..
        }: &Arguments,
    ) -> Result<Self, RunError> {
        let mut repetitions = Vec::new();
        let mut step_nodes = None;
        let mut anatomies = Vec::new();
        for &mode in modes {
            runner.set_graph_mode(mode);
            let turns: Vec<Turn> = (0..*reps)
                .map(|_| Turn::run(runner, prompt, *generate))
                .collect::<Result<_, _>>()?;
            if anatomies.is_empty() {
                repetitions = turns.iter().map(|turn| speed(turn, prompt.len())).collect();
                step_nodes = Some(runner.graph().nodes()).filter(|nodes| *nodes > 0);
            }
            anatomies.push(Anatomy::new(mode, &turns, runner));
        }
        let rows: Vec<usize> = rows.iter().copied().map(usize::from).collect();
        runner.set_graph_mode(modes[0]);
        let rows = together::measure(runner, &rows, prompt, *generate)?;
        // Each figure by itself: a repetition may be the best of one and not of another.
        let of = |pick: fn(&[f64]) -> f64| {
            let column = |figure: fn(&Speed) -> f64| {
                let column: Vec<f64> = repetitions.iter().map(figure).collect();
                pick(&column)
            };
            Speed {
                prefill: column(|speed| speed.prefill),
                decode: column(|speed| speed.decode),
                moved: column(|speed| speed.moved),
            }
        };
        Ok(Self {
            prompt: prompt.len(),
            step_nodes,
            best: of(|column| column.iter().copied().fold(0.0, f64::max)),
            median: of(|column| median(column.iter().copied())),
            repetitions,
            modes: anatomies,
            rows,
            operations: Vec::new(),
            percent_of_read: None,
            percent_of_copy: None,
        })
    }

    /// Adds where a step's time goes. That costs a little from then on, so it comes after all that is only timed.
    ///
    /// # Errors
    /// As `Runner::step`.
    pub(super) fn look_inside(
        &mut self,
        runner: &mut Runner,
        prompt: &[u32],
        Arguments {
            generate, modes, ..
        }: &Arguments,
    ) -> Result<(), RunError> {
        // A CPU has no clock but the one that has timed the steps.
        if !matches!(runner.executor(), Executor::Cpu(_)) {
            for (&mode, row) in modes.iter().zip(&mut self.modes) {
                runner.set_graph_mode(mode);
                row.look_inside(runner, prompt, *generate)?;
            }
        }
        runner.set_graph_mode(modes[0]);
        self.operations = kinds::measure(runner, 1, prompt, *generate)?;
        for row in self.rows.iter_mut().filter(|row| row.rows > 1) {
            row.operations = kinds::measure(runner, row.rows, prompt, *generate)?;
        }
        Ok(())
    }

    /// Adds what the machine's memory would allow.
    pub(super) fn hold_against(&mut self, ceiling: Ceiling) {
        let percent = 100.0 * self.best.moved * 1e9 / ceiling.bytes_per_second();
        match ceiling {
            Ceiling::Read(_) => self.percent_of_read = Some(percent),
            #[cfg(feature = "cuda")]
            Ceiling::Copy(_) => self.percent_of_copy = Some(percent),
        }
        let rows = self.rows.iter_mut().map(|row| &mut row.operations);
        for operations in rows.chain([&mut self.operations]) {
            kinds::hold_against(operations, ceiling.bytes_per_second());
        }
    }

    /// What the best decode moves, of what this machine could move.
    fn percent(&self) -> Option<f64> {
        self.percent_of_read.or(self.percent_of_copy)
    }
}

#[allow(clippy::cast_precision_loss)] // counts of tokens and of bytes moved, shown to three digits
fn speed(turn: &Turn, prompt: usize) -> Speed {
    let decode = turn.decode.as_secs_f64();
    Speed {
        prefill: prompt as f64 / turn.prompt.as_secs_f64(),
        decode: turn.generated() as f64 / decode,
        moved: turn.bytes as f64 / decode / 1e9,
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "        prefill tok/s  decode tok/s  decode GB/s")?;
        let mut row = |name: &str, speed: &Speed| {
            writeln!(
                f,
                "{name:<6}  {:>14.1}  {:>12.1}  {:>11.2}",
                speed.prefill, speed.decode, speed.moved
            )
        };
        for (number, speed) in self.repetitions.iter().enumerate() {
            row(&(number + 1).to_string(), speed)?;
        }
        row("best", &self.best)?;
        row("median", &self.median)?;
        writeln!(f)?;
        anatomy::table(&self.modes, f)?;
        writeln!(f)?;
        together::table(&self.rows, f)?;
        kinds::table(&self.operations, 1, f)?;
        for row in &self.rows {
            kinds::table(&row.operations, row.rows, f)?;
        }
        if let Some(nodes) = self.step_nodes {
            writeln!(f, "a step replays {nodes} nodes")?;
        }
        if let Some(percent) = self.percent() {
            writeln!(
                f,
                "the best decode moves {percent:.0}% of what the memory does here"
            )?;
        }
        Ok(())
    }
}
