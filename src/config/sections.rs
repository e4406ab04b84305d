//! The sections of a configuration, and their defaults.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::graph::Mode;
use crate::journal::Level;
use crate::kv::Reuse;
use crate::load::{Activations, KvChoice, KvChoices, Placement};
use crate::sampler::Partial;
use crate::session_store::Durability;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// A GGUF file or a safetensors directory; absolute, or relative to where the daemon starts.
    pub path: Option<PathBuf>,
    /// The file of a chat template that takes the place of the model's own.
    pub chat_template: Option<PathBuf>,
    /// What templates get as `enable_thinking` where a request does not say; `None` leaves it to them.
    pub thinking: Option<bool>,
    /// The folder of the formats in which models call tools.
    pub tool_formats: PathBuf,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            path: None,
            chat_template: None,
            thinking: None,
            tool_formats: "/usr/share/ganglion/tools".into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kv {
    /// The type of K and V.
    #[serde(rename = "type")]
    pub element: KvChoice,
    /// The type of K; `None` is `element`.
    #[serde(rename = "type_k")]
    pub key: Option<KvChoice>,
    /// The type of V; `None` is `element`.
    #[serde(rename = "type_v")]
    pub value: Option<KvChoice>,
    /// Tokens of one conversation; 0 is what the model was trained for.
    pub context: usize,
    /// Whether a file sets `context`: a default gives way to a model that was trained for fewer tokens.
    #[serde(skip)]
    pub context_is_set: bool,
    /// The whole cache has so many; with 0 it takes what there is room for, up to four conversations of that length.
    pub memory_mib: u64,
    /// What of past turns serves others.
    pub reuse: Reuse,
    /// The release before had this: where `memory_mib` is not set, there is room for so many conversations of that length.
    pub slots: Option<usize>,
    /// Pages in the host's memory take no more; `None` is some where a GPU has memory of its own, and none elsewhere.
    pub host_mib: Option<u64>,
    /// All pages on the disk take no more; with 0 there are none.
    pub disk_mib: u64,
    /// So much of them may be written a day; `None` is nothing on what wears out, and any amount on other disks.
    pub disk_writes_mib_per_day: Option<u64>,
    /// How long a session rests before its pages are written.
    #[serde(rename = "spill_after_seconds")]
    pub spill_after: Duration,
    /// What a stop may take for those that are not.
    #[serde(rename = "stop_seconds")]
    pub stop: Duration,
}

/// What is recorded once and replayed by one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Graph {
    pub mode: Mode,
    /// Rows to which short prompts are padded.
    pub capture_sizes: Vec<usize>,
    /// Recorded prompts that are kept.
    pub prompt_graphs: usize,
    /// Memory that the driver may take for them.
    pub prompt_mib: u64,
    /// Record them before the first request rather than on their first use.
    pub record_at_start: bool,
    pub debug: GraphDebug,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphDebug {
    /// Compare each replay with what was recorded.
    pub verify_addresses: bool,
    /// Launches of what was recorded that are refused on purpose.
    pub refuse_launches: u32,
}

/// Where things lie, and what is left to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub weights: Placement,
    pub kv: Placement,
    /// So much is left to the rest of the system.
    pub reserve_mib: u64,
}

/// What only a GPU asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    pub activations: Activations,
    /// Refuse on a discrete GPU what an Orin would not allow.
    pub emulate_tegra: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// 0 is one a core.
    pub threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Conversations that may share a step.
    pub rows: usize,
    /// Rows of one prefill step; 0 is as many as suit the memory.
    pub prefill_chunk: usize,
    /// Reading a prompt takes no longer than this between two steps.
    #[serde(rename = "prefill_slice_ms")]
    pub prefill_slice: Duration,
    /// Prompts take so much of the time while answers wait, in percent.
    pub prefill_share: u32,
    /// How long a thread spins for a GPU's token before it sleeps.
    #[serde(rename = "spin_us")]
    pub spin: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// What one may take.
    #[serde(rename = "max_seconds")]
    pub longest: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reload {
    /// What requests that run get to end with the model from before.
    #[serde(rename = "drain_seconds")]
    pub drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Requests that may wait behind the running one.
    pub capacity: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// So many may be answered or read at once.
    pub requests: usize,
    pub requests_per_user: usize,
    /// One user may have so much of `queue.capacity`.
    pub queue_percent_per_user: usize,
    /// One user may have so much of the cache's pages.
    pub kv_percent_per_user: usize,
    pub sessions: usize,
    pub sessions_per_user: usize,
    /// The most that one request may ask for.
    pub max_tokens: usize,
    /// Bytes of the schema or grammar of one answer.
    pub grammar_bytes: usize,
    /// Symbols of a compiled grammar, and nodes of its regular expressions.
    pub grammar_work: usize,
    /// Processor time of compiling a grammar.
    #[serde(rename = "grammar_seconds")]
    pub grammar_time: Duration,
    /// Processor time of one mask of an answer.
    #[serde(rename = "mask_seconds")]
    pub mask_time: Duration,
    /// Who, besides root, may ask for priority realtime.
    pub realtime_group: Option<String>,
}

/// Conversations on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// It is read at the start alone.
    pub directory: PathBuf,
    pub durability: Durability,
    /// What one user may keep.
    pub per_user: usize,
    pub mib_per_user: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            directory: "/var/lib/ganglion/sessions".into(),
            durability: Durability::default(),
            per_user: 64,
            mib_per_user: 64,
        }
    }
}

/// What a request gets where it does not say. `None` leaves a value to the model, or else to the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// Whether the values that the model recommends are the defaults of those that are not set.
    pub from_model: bool,
    /// `None`: a fresh one for each request.
    pub seed: Option<u64>,
    pub max_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    #[serde(rename = "stall_seconds")]
    pub stall: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    #[serde(rename = "grace_seconds")]
    pub grace: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Watchdog {
    #[serde(rename = "stall_seconds")]
    pub stall: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Log {
    pub level: Level,
}

impl Sampling {
    /// The values that are set.
    #[must_use]
    pub const fn set(&self) -> Partial {
        Partial {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
        }
    }
}

impl Kv {
    /// The types of K and V.
    #[must_use]
    pub fn choices(&self) -> KvChoices {
        KvChoices {
            k: self.key.unwrap_or(self.element),
            v: self.value.unwrap_or(self.element),
        }
    }
}

impl Default for Kv {
    fn default() -> Self {
        Self {
            element: KvChoice::default(),
            key: None,
            value: None,
            context: 2048,
            context_is_set: false,
            memory_mib: 0,
            reuse: Reuse::default(),
            slots: None,
            host_mib: None,
            disk_mib: 1024,
            disk_writes_mib_per_day: None,
            spill_after: Duration::from_secs(60),
            stop: Duration::from_secs(5),
        }
    }
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            capture_sizes: vec![16, 32, 64, 128],
            prompt_graphs: 16,
            prompt_mib: 64,
            record_at_start: false,
            debug: GraphDebug::default(),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            weights: Placement::default(),
            kv: Placement::default(),
            reserve_mib: 128,
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            rows: 8,
            prefill_chunk: 0,
            prefill_slice: Duration::from_millis(20),
            prefill_share: 50,
            spin: Duration::from_micros(50),
        }
    }
}

impl Default for Reload {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            longest: Duration::from_secs(60),
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { capacity: 16 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 256,
            requests_per_user: 64,
            queue_percent_per_user: 75,
            kv_percent_per_user: 100,
            sessions: 8,
            sessions_per_user: 6,
            max_tokens: 4096,
            grammar_bytes: crate::guide::Limits::USUAL.bytes,
            grammar_work: crate::guide::Limits::USUAL.work,
            grammar_time: crate::guide::Limits::USUAL.compile,
            mask_time: crate::guide::Limits::USUAL.mask,
            realtime_group: None,
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: None,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: None,
            from_model: true,
            seed: None,
            max_tokens: 512,
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(30),
        }
    }
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(60),
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
        }
    }
}
