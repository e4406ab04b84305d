//! The figures of a bench, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::anatomy::{self, Anatomy};
use super::kinds::{self, Kind};
use super::loading::Loading;
use super::resident::Resident;
use super::statistics::median;
use super::together::{self, Together};

/// What one repetition reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Speed {
    /// Tokens per second.
    #[serde(rename = "prefill_tokens_per_second")]
    pub(crate) prefill: f64,
    /// Tokens per second.
    #[serde(rename = "decode_tokens_per_second")]
    pub(crate) decode: f64,
    /// Bytes that the steps had to move, per second, in 10^9.
    #[serde(rename = "decode_gigabytes_per_second")]
    pub(crate) moved: f64,
}

/// What the turns gave.
pub(crate) struct Measured {
    /// Of each repetition in the first mode.
    pub(crate) speeds: Vec<Speed>,
    /// Kernels, or operations of the CPU's, that a replayed step launches; `None` where none is replayed.
    pub(crate) step_nodes: Option<usize>,
    pub(super) modes: Vec<Anatomy>,
    pub(super) together: Vec<Together>,
    pub(super) kinds: Vec<Kind>,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) version: &'static str,
    pub(crate) model: String,
    /// Of the weights' files.
    pub(crate) model_bytes: Option<u64>,
    pub(crate) backend: &'static str,
    pub(crate) kv: &'static str,
    pub(crate) threads: usize,
    pub(crate) prompt: usize,
    pub(crate) generate: usize,
    /// Of the graph in the repetitions.
    pub(crate) mode: &'static str,
}

/// What decode is held against, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ceiling {
    /// Sequential reads, with as many threads.
    Read(f64),
    /// Copies within the GPU's memory, reads and writes together.
    #[cfg(feature = "cuda")]
    Copy(f64),
}

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    setting: Setting,
    step_nodes: Option<usize>,
    repetitions: Vec<Speed>,
    best: Speed,
    median: Speed,
    modes: Vec<Anatomy>,
    /// Of several conversations at once, for each number of rows that was asked for.
    rows: Vec<Together>,
    /// Of a step, on a device with a clock.
    operations: Vec<Kind>,
    #[serde(flatten)]
    loading: Loading,
    /// What this machine reads sequentially with as many threads, in 10^9 bytes per second (CPU backend).
    read_gigabytes_per_second: Option<f64>,
    /// What the best decode moves, of that.
    percent_of_read: Option<f64>,
    /// What the GPU reads and writes while it copies, in 10^9 bytes per second (CUDA backend).
    copy_gigabytes_per_second: Option<f64>,
    /// What the best decode moves, of that.
    percent_of_copy: Option<f64>,
    resident_bytes: Option<Resident>,
}

impl Report {
    pub(crate) fn new(
        Measured {
            speeds: repetitions,
            step_nodes,
            modes,
            together,
            mut kinds,
        }: Measured,
        ceiling: Option<Ceiling>,
        setting: Setting,
        loading: Loading,
        resident_bytes: Option<Resident>,
    ) -> Self {
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
        let best = of(|column| column.iter().copied().fold(0.0, f64::max));
        let median = of(|column| median(column.iter().copied()));
        let (read, copy) = match ceiling {
            Some(Ceiling::Read(bytes)) => (Some(bytes / 1e9), None),
            #[cfg(feature = "cuda")]
            Some(Ceiling::Copy(bytes)) => (None, Some(bytes / 1e9)),
            None => (None, None),
        };
        if let Some(gigabytes) = read.or(copy) {
            kinds::hold_against(&mut kinds, gigabytes * 1e9);
        }
        Self {
            setting,
            step_nodes,
            best,
            median,
            modes,
            rows: together,
            operations: kinds,
            repetitions,
            loading,
            read_gigabytes_per_second: read,
            percent_of_read: read.map(|read| 100.0 * best.moved / read),
            copy_gigabytes_per_second: copy,
            percent_of_copy: copy.map(|copy| 100.0 * best.moved / copy),
            resident_bytes,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting {
            model,
            backend,
            kv,
            threads,
            prompt,
            generate,
            mode,
            ..
        } = &self.setting;
        writeln!(f, "{model}: {backend}, {kv} cache, {threads} threads")?;
        writeln!(
            f,
            "prompt of {prompt} tokens, then {generate} generated, graph mode {mode}"
        )?;
        writeln!(f)?;
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
        kinds::table(&self.operations, f)?;
        if let Some(nodes) = self.step_nodes {
            writeln!(f, "a step replays {nodes} nodes")?;
        }
        let ceilings = [
            (
                "reads",
                self.read_gigabytes_per_second,
                self.percent_of_read,
            ),
            (
                "copies (reads + writes)",
                self.copy_gigabytes_per_second,
                self.percent_of_copy,
            ),
        ];
        for (what, speed, percent) in ceilings {
            if let (Some(speed), Some(percent)) = (speed, percent) {
                writeln!(
                    f,
                    "memory {what} at {speed:.2} GB/s here; the best decode moves {percent:.0}% of it"
                )?;
            }
        }
        write!(f, "{}", self.loading)?;
        if let Some(Resident { now, peak }) = self.resident_bytes {
            write!(
                f,
                "resident {} MB, at most {} MB",
                megabytes(now),
                megabytes(peak)
            )?;
            match self.setting.model_bytes {
                Some(bytes) => writeln!(f, "; the model's file {} MB", megabytes(bytes))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// To the nearest 10^6.
pub(super) fn megabytes(bytes: u64) -> u64 {
    bytes.saturating_add(500_000) / 1_000_000
}
