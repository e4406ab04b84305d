//! What the engine tells everyone about itself.

use crate::runner::{KvSelection, MemoryUse};
use crate::sampler::Partial;
use crate::telemetry::Receipt;

/// The life of the daemon's engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Loading,
    Ready,
    Failed,
    Stopping,
}

impl State {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
        }
    }
}

/// The model in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// As its file calls it.
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
    /// The types of the cache; a script has none.
    pub kv: Option<KvSelection>,
    /// Bytes of the weights as stored.
    pub weight_bytes: u64,
    /// How many numbers the weights are.
    pub parameters: u64,
    /// The format of the weights, such as "Q4_K_M"; of a script nothing.
    pub quantization: String,
    /// Tokens that it was trained for.
    pub trained_context: u32,
    /// Whether it can think before it answers: its template asks whether it is to.
    pub thinking: bool,
    /// The format in which it calls tools; empty if it calls none.
    pub tools: String,
    /// Where its chat template comes from; empty if it has none.
    pub template: String,
    /// The sampling that its files recommend.
    pub sampling: Partial,
}

/// Each change reaches the bus and systemd.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub state: State,
    /// People are shown this: the load's progress, or the reason of a failure with its remedy; it may be empty.
    pub detail: String,
    /// Of a load that has failed, whether another a moment later may not.
    pub passes: bool,
    pub backend: String,
    /// Which device that is, or why it is not another; for people.
    pub device: String,
    pub model: ModelInfo,
    pub memory: MemoryUse,
    /// The decode graph is in this state, by the name that callers see.
    pub graph_state: &'static str,
    /// Requests waiting or running.
    pub queue_length: u32,
    pub sessions: u32,
    /// The last finished request cost this.
    pub receipt: Option<Receipt>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            state: State::Loading,
            detail: String::new(),
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
