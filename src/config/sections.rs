//! The sections of a configuration, and their defaults.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::socket_users::SocketUsers;
use crate::graph::Mode;
use crate::guess::{MOST_GUESSES, Mode as GuessMode};
use crate::journal::Level;
use crate::kv::Reuse;
use crate::load::{Activations, KvChoice, KvChoices, Placement, Precision, TowerFile};
use crate::sampler::Partial;
use crate::session_store::Durability;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// A GGUF file or a safetensors directory. A relative path starts in the folder of the configuration file.
    pub path: Option<PathBuf>,
    /// The vision tower.
    pub vision: TowerFile,
    /// The file of a chat template that replaces the model's own.
    pub chat_template: Option<PathBuf>,
    /// The templates' `enable_thinking` for requests that do not set it; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// The folder of tool-call formats.
    pub tool_formats: PathBuf,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            path: None,
            vision: TowerFile::default(),
            chat_template: None,
            thinking: None,
            tool_formats: "/usr/share/ganglion/tools".into(),
        }
    }
}

/// A smaller model, whose guesses make answers faster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// A GGUF file or a safetensors directory. A relative path starts in the folder of the configuration file.
    pub model: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kv {
    /// The type of K and V.
    #[serde(rename = "type")]
    pub element: KvChoice,
    /// The type of K; `None` means `element`.
    #[serde(rename = "type_k")]
    pub key: Option<KvChoice>,
    /// The type of V; `None` means `element`.
    #[serde(rename = "type_v")]
    pub value: Option<KvChoice>,
    /// Tokens of one conversation; 0 means the length that the model was trained for.
    pub context: usize,
    /// Whether a file sets `context`. A default is lowered for a model that was trained for fewer tokens.
    #[serde(skip)]
    pub context_is_set: bool,
    /// MiB of the whole cache; 0 means as much as fits, up to four conversations of length `context`.
    pub memory_mib: u64,
    /// Which parts of past turns later requests may reuse.
    pub reuse: Reuse,
    /// The deprecated key for the number of conversations that have room if `memory_mib` is not set.
    pub slots: Option<usize>,
    /// MiB of pages in the host's memory; `None` means a default for GPUs with memory of their own, and none otherwise.
    pub host_mib: Option<u64>,
    /// MiB of all pages on the disk; 0 disables them.
    pub disk_mib: u64,
    /// MiB of pages that may be written a day; `None` means nothing on disks that wear out, and any amount on others.
    pub disk_writes_mib_per_day: Option<u64>,
    /// The time that a session must be idle before its pages are written.
    #[serde(rename = "spill_after_seconds")]
    pub spill_after: Duration,
    /// The time for writing the remaining pages at a stop.
    #[serde(rename = "stop_seconds")]
    pub stop: Duration,
}

/// Decode and prompt graphs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Graph {
    pub mode: Mode,
    /// Row counts that short prompts are padded to.
    pub capture_sizes: Vec<usize>,
    /// The number of prompt graphs that are kept.
    pub prompt_graphs: usize,
    /// The driver's memory for prompt graphs.
    pub prompt_mib: u64,
    /// Record prompt graphs before the first request instead of on first use.
    pub record_at_start: bool,
    pub debug: GraphDebug,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphDebug {
    /// Compare the addresses of each replay with the recording.
    pub verify_addresses: bool,
    /// The number of graph launches that are refused on purpose.
    pub refuse_launches: u32,
}

/// The placement of weights and cache, and the reserve for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub weights: Placement,
    pub kv: Placement,
    /// MiB left to the rest of the system.
    pub reserve_mib: u64,
    /// MiB below which the daemon releases memory that nobody needs; 0 disables it.
    pub keep_free_mib: u64,
}

/// Settings that only a GPU uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    pub activations: Activations,
    /// On a discrete GPU, refuse accesses that an Orin would not allow.
    pub emulate_tegra: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// 0 means one thread for each core.
    pub threads: usize,
    pub activations: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Conversations that may share a step.
    pub rows: usize,
    /// Rows of one prefill step; 0 chooses the number by the memory.
    pub prefill_chunk: usize,
    /// The longest prefill between two decode steps.
    #[serde(rename = "prefill_slice_ms")]
    pub prefill_slice: Duration,
    /// The share of time for prefill while other answers are being decoded, in percent.
    pub prefill_share: u32,
    /// The time that a thread spins for a GPU's token before it sleeps.
    #[serde(rename = "spin_us")]
    pub spin: Duration,
    /// Whether answers are guessed whose requests leave it open.
    pub guess: GuessMode,
    /// The most tokens that a step guesses for one answer.
    pub guess_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// The longest time of one hold.
    #[serde(rename = "max_seconds")]
    pub longest: Duration,
}

/// What happens while there is no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// The time without a request after which the weights are released; zero means never.
    #[serde(rename = "unload_seconds")]
    pub unload: Duration,
}

/// What to do on a hot board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Heat {
    /// The temperature from which the board is hot, in degrees Celsius; 0 means never.
    pub celsius: u32,
    /// The most rows of a step on a hot board; `None` means half of `engine.rows`.
    pub rows: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reload {
    /// The time in which active requests may finish with the previous model after a reload.
    #[serde(rename = "drain_seconds")]
    pub drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Requests that may wait in the queue.
    pub capacity: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests that may be active at once.
    pub requests: usize,
    pub requests_per_user: usize,
    /// The share of `queue.capacity` for one user.
    pub queue_percent_per_user: usize,
    /// The share of the cache's pages for one user.
    pub kv_percent_per_user: usize,
    pub sessions: usize,
    pub sessions_per_user: usize,
    /// The largest `max_tokens` of a request.
    pub max_tokens: usize,
    /// Bytes of the schema or grammar of one answer.
    pub grammar_bytes: usize,
    /// Symbols of a compiled grammar, and nodes of its regular expressions.
    pub grammar_work: usize,
    /// Processor time for compiling a grammar.
    #[serde(rename = "grammar_seconds")]
    pub grammar_time: Duration,
    /// Processor time for one mask of an answer.
    #[serde(rename = "mask_seconds")]
    pub mask_time: Duration,
    /// The group that may use priority realtime, besides root.
    pub realtime_group: Option<String>,
}

/// Images in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vision {
    /// Pixels of one image as received.
    pub max_pixels: u64,
    /// Tokens that one image may take; 0 means that the model sees no images.
    pub max_tokens: u32,
    /// Images of one request.
    pub max_images: usize,
    /// MiB of encoded images that stay in memory for later requests.
    pub cache_mib: u64,
}

impl Default for Vision {
    fn default() -> Self {
        Self {
            max_pixels: 16 << 20,
            max_tokens: 1024,
            max_images: 8,
            cache_mib: 64,
        }
    }
}

/// Conversations on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// The directory, which is only read at the start.
    pub directory: PathBuf,
    pub durability: Durability,
    /// The number of stored sessions of one user.
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

/// Defaults of sampling options. `None` means the model's recommendation, or else the sampler's default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// Whether the model's recommendations are the defaults of unset values.
    pub from_model: bool,
    /// The seed; `None` means a new one for each request.
    pub seed: Option<u64>,
    pub max_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    #[serde(rename = "stall_seconds")]
    pub stall: Duration,
}

/// OpenAI's API on sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Http {
    /// The file of the keys of callers over TCP; `None` means no TCP.
    pub key_file: Option<PathBuf>,
    /// MiB of the body of one request.
    pub max_body_mib: usize,
    /// The users of all callers on a socket.
    pub users: SocketUsers,
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
    /// Returns the values that are set.
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
    /// Returns the types of K and V.
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
            keep_free_mib: 0,
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
            guess: GuessMode::default(),
            guess_tokens: MOST_GUESSES,
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

impl Default for Http {
    fn default() -> Self {
        Self {
            key_file: None,
            max_body_mib: 16,
            users: SocketUsers::default(),
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
