//! What a runner is made from: a model whose weights an executor holds, and how the runner is to use it.

use std::time::Duration;

use super::kv_selection::KvSelection;
use super::logits_observer::LogitsObserver;
use super::system_memory::SystemMemory;
use crate::executor::Executor;
use crate::graph::GraphOptions;
use crate::kv::Reuse;
use crate::model::forward::Forward;

/// A model on its executor.
pub(crate) struct Model {
    pub(crate) forward: Forward,
    pub(crate) executor: Box<dyn Executor>,
    /// The most rows of a prompt that run at once.
    pub(crate) prefill_chunk: usize,
    /// The device, and why it is not another; for people.
    pub(crate) description: String,
    /// Whether the cache is in the system's memory, rather than in a GPU's own.
    pub(crate) uses_system_memory: bool,
    pub(crate) kv_selection: KvSelection,
    /// Bytes of the weights as stored.
    pub(crate) weight_bytes: u64,
}

/// How a runner uses its model.
pub(crate) struct Options {
    /// Which pages of earlier requests a new one may share.
    pub(crate) reuse: Reuse,
    /// The most rows of a step.
    pub(crate) rows: usize,
    pub(crate) graph: GraphOptions,
    /// How long memory of the cache stays unused before it is released.
    pub(crate) release_after: Duration,
    pub(crate) system_memory: SystemMemory,
    pub(crate) observer: Option<LogitsObserver>,
}
