//! The figures of a bench, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::ceiling::Ceiling;
use super::context::Context;
use super::loading::Loading;
use super::memory::Resident;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    pub(super) version: &'static str,
    pub(super) model: String,
    /// Of the weights' files.
    pub(super) model_bytes: Option<u64>,
    pub(super) backend: &'static str,
    pub(super) kv: &'static str,
    pub(super) threads: usize,
    /// That kernels ran on, of a GPU's.
    pub(super) multiprocessors: Option<u32>,
    /// That the GPU has; more than that where they ran on a partition of it.
    pub(super) of_multiprocessors: Option<u32>,
    pub(super) generate: usize,
    /// Of the graph in the repetitions.
    pub(super) mode: &'static str,
}

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    setting: Setting,
    /// Of the first length: with one, all there is.
    #[serde(flatten)]
    first: Option<Context>,
    /// Of each length of the prompt, in the order that was asked for.
    contexts: Vec<Context>,
    #[serde(flatten)]
    loading: Loading,
    /// What this machine reads sequentially with as many threads, in 10^9 bytes per second (CPU backend).
    read_gigabytes_per_second: Option<f64>,
    /// What the GPU reads and writes while it copies, in 10^9 bytes per second (CUDA backend).
    copy_gigabytes_per_second: Option<f64>,
    resident_bytes: Option<Resident>,
}

impl Report {
    pub(super) fn new(
        mut contexts: Vec<Context>,
        ceiling: Option<Ceiling>,
        setting: Setting,
        loading: Loading,
        resident_bytes: Option<Resident>,
    ) -> Self {
        if let Some(ceiling) = ceiling {
            for context in &mut contexts {
                context.hold_against(ceiling);
            }
        }
        let (read, copy) = match ceiling {
            Some(Ceiling::Read(bytes)) => (Some(bytes / 1e9), None),
            #[cfg(feature = "cuda")]
            Some(Ceiling::Copy(bytes)) => (None, Some(bytes / 1e9)),
            None => (None, None),
        };
        Self {
            setting,
            first: contexts.first().cloned(),
            contexts,
            loading,
            read_gigabytes_per_second: read,
            copy_gigabytes_per_second: copy,
            resident_bytes,
        }
    }
}

impl Report {
    /// Of each length of the prompt, in the order that was asked for.
    pub(super) fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// What was measured, in a line.
    pub(super) fn title(&self) -> String {
        self.setting.to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setting)?;
        let Setting { generate, mode, .. } = &self.setting;
        for context in &self.contexts {
            let prompt = context.prompt;
            writeln!(
                f,
                "prompt of {prompt} tokens, then {generate} generated, graph mode {mode}"
            )?;
            writeln!(f, "\n{context}")?;
        }
        for (what, speed) in [
            ("reads", self.read_gigabytes_per_second),
            ("copies (reads + writes)", self.copy_gigabytes_per_second),
        ] {
            if let Some(speed) = speed {
                writeln!(f, "memory {what} at {speed:.2} GB/s here")?;
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

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            backend,
            kv,
            threads,
            ..
        } = self;
        write!(f, "{model}: {backend}, {kv} cache, {threads} threads")?;
        match (self.multiprocessors, self.of_multiprocessors) {
            (Some(some), Some(all)) if some < all => {
                write!(f, ", on a partition of {some} of {all} multiprocessors")
            }
            _ => Ok(()),
        }
    }
}

/// To the nearest 10^6.
pub(super) fn megabytes(bytes: u64) -> u64 {
    bytes.saturating_add(500_000) / 1_000_000
}
