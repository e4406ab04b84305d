//! The status of the engine: its state, its model, its memory.

use crate::kv::Layout;
use crate::runner::{KvSelection, MemoryUse};
use crate::sampler::Partial;
use crate::telemetry::Receipt;

/// The state of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The model is being loaded, at the start or for a request.
    Loading,
    Ready,
    /// The weights were released because nobody needed them. The next request loads them again.
    Idle,
    Failed,
    Stopping,
}

impl State {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
        }
    }
}

/// The active model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// The name in its file.
    pub name: String,
    pub architecture: String,
    pub path: String,
    pub layers: u32,
    pub hidden: u32,
    pub vocabulary: u32,
    /// Tokens that one session can hold.
    pub context: u32,
    /// Pages of the cache; a script has none.
    pub pages: u32,
    /// How a session uses pages.
    pub layout: Layout,
    /// The types of the cache; a script has none.
    pub kv: Option<KvSelection>,
    /// Bytes of the weights as stored.
    pub weight_bytes: u64,
    /// The number of parameters.
    pub parameters: u64,
    /// The format of the weights, such as "Q4_K_M"; empty for a script.
    pub quantization: String,
    /// The context that it was trained for.
    pub trained_context: u32,
    /// Whether its template can switch thoughts on and off.
    pub thinking: bool,
    /// Whether it has a vision tower, and so takes images.
    pub images: bool,
    /// The file or directory of its draft model; empty without one.
    pub draft: String,
    /// Whether its head that guesses tokens is loaded.
    pub head: bool,
    /// The format in which it calls tools; empty if it cannot.
    pub tools: String,
    /// The origin of its chat template; empty if it has none.
    pub template: String,
    /// The sampling that its files recommend.
    pub sampling: Partial,
}

/// The status of the engine. Each change reaches the front ends and systemd.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub state: State,
    /// For people: the progress of a load, or the reason of a failure with its remedy; may be empty.
    pub detail: String,
    /// Percent of the weights that were read; `None` if no model is loading, or it has not begun to read them.
    pub loaded_percent: Option<u64>,
    /// Whether a load that has failed may succeed a moment later.
    pub passes: bool,
    pub backend: String,
    /// The device, or why it is not another; for people.
    pub device: String,
    pub model: ModelInfo,
    pub memory: MemoryUse,
    /// The state of the decode graph, by its public name.
    pub graph_state: &'static str,
    /// Requests that wait or are active.
    pub queue_length: u32,
    pub sessions: u32,
    /// The receipt of the last finished request.
    pub receipt: Option<Receipt>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            state: State::Loading,
            detail: String::new(),
            loaded_percent: None,
            passes: false,
            backend: String::new(),
            device: String::new(),
            model: ModelInfo::default(),
            memory: MemoryUse::default(),
            graph_state: "none",
            queue_length: 0,
            sessions: 0,
            receipt: None,
        }
    }
}
