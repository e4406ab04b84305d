//! The figures of a bench, as programs read them.

use serde::Serialize;

use super::context::Context;
use super::loading::Loading;
use super::memory::Resident;

/// All that was measured. The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub struct Report {
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
    pub contexts: Vec<Context>,
    #[serde(flatten)]
    pub(super) loading: Loading,
    /// This machine reads so much sequentially with as many threads, in 10^9 bytes per second (CPU backend).
    pub(super) read_gigabytes_per_second: Option<f64>,
    /// The GPU reads and writes so much while it copies, in 10^9 bytes per second (CUDA backend).
    pub(super) copy_gigabytes_per_second: Option<f64>,
    pub(super) resident_bytes: Option<Resident>,
}
