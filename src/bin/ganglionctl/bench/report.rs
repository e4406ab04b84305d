//! The figures of a bench, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::context::Context;
use super::loading::Loading;
use super::memory::{Resident, megabytes};

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) model: String,
    /// The weights' files have so many.
    pub(super) model_bytes: Option<u64>,
    pub(super) backend: &'static str,
    pub(super) kv: &'static str,
    pub(super) threads: usize,
    /// Kernels ran on so many of a GPU's.
    pub(super) multiprocessors: Option<u32>,
    /// The GPU has so many; that is more where they ran on a partition of it.
    pub(super) of_multiprocessors: Option<u32>,
    pub(super) generate: usize,
    /// The graph had this mode in the repetitions.
    pub(super) mode: &'static str,
    /// The first length is told twice: with one, it is all there is.
    #[serde(flatten)]
    pub(super) first: Option<Context>,
    /// Each length of the prompt is told, in the order that was asked for.
    pub(super) contexts: Vec<Context>,
    #[serde(flatten)]
    pub(super) loading: Loading,
    /// This machine reads so much sequentially with as many threads, in 10^9 bytes per second (CPU backend).
    pub(super) read_gigabytes_per_second: Option<f64>,
    /// The GPU reads and writes so much while it copies, in 10^9 bytes per second (CUDA backend).
    pub(super) copy_gigabytes_per_second: Option<f64>,
    pub(super) resident_bytes: Option<Resident>,
}

impl Report {
    /// What was measured, in a line.
    pub(super) fn title(&self) -> String {
        let partition = match (self.multiprocessors, self.of_multiprocessors) {
            (Some(some), Some(all)) if some < all => {
                format!(", on a partition of {some} of {all} multiprocessors")
            }
            _ => String::new(),
        };
        format!(
            "{}: {}, {} cache, {} threads{partition}",
            self.model, self.backend, self.kv, self.threads
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        let Self { generate, mode, .. } = self;
        for context in &self.contexts {
            let prompt = context.prompt;
            writeln!(
                f,
                "prompt of {prompt} tokens, then {generate} generated, graph mode {mode}\n\n{context}"
            )?;
        }
        if let Some(speed) = self.read_gigabytes_per_second {
            writeln!(f, "memory reads at {speed:.2} GB/s here")?;
        }
        if let Some(speed) = self.copy_gigabytes_per_second {
            writeln!(f, "memory copies (reads + writes) at {speed:.2} GB/s here")?;
        }
        write!(f, "{}", self.loading)?;
        if let Some(resident) = self.resident_bytes {
            let [now, peak] = [resident.now, resident.peak].map(megabytes);
            write!(f, "resident {now} MB, at most {peak} MB")?;
            let file = self.model_bytes.map(megabytes);
            let file = file.map(|file| format!("; the model's file {file} MB"));
            writeln!(f, "{}", file.unwrap_or_default())?;
        }
        Ok(())
    }
}
