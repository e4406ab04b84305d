//! The figures of a bench, as programs read them.

use serde::Serialize;

use super::context::Context;
use super::loading::Loading;
use super::memory::Resident;

/// All measurements. The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(super) version: &'static str,
    pub(super) model: String,
    /// Bytes of the weights' files.
    pub(super) model_bytes: Option<u64>,
    pub(super) backend: &'static str,
    pub(super) kv: &'static str,
    pub(super) threads: usize,
    /// The number of the GPU's multiprocessors in use.
    pub(super) multiprocessors: Option<u32>,
    /// The number of the GPU's multiprocessors, which is larger than the number in use on a partition.
    pub(super) of_multiprocessors: Option<u32>,
    pub(super) generate: usize,
    /// The mode of the decode graph in the repetitions.
    pub(super) mode: &'static str,
    /// The first length once more, at the top level.
    #[serde(flatten)]
    pub(super) first: Option<Context>,
    /// The results for each prompt length, in the order of the arguments.
    pub contexts: Vec<Context>,
    #[serde(flatten)]
    pub(super) loading: Loading,
    /// Sequential read bandwidth of this machine with this number of threads, in 10^9 bytes per second (CPU backend).
    pub(super) read_gigabytes_per_second: Option<f64>,
    /// Copy bandwidth of the GPU, reads and writes together, in 10^9 bytes per second (CUDA backend).
    pub(super) copy_gigabytes_per_second: Option<f64>,
    pub(super) resident_bytes: Option<Resident>,
}
