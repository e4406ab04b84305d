//! The settings of a model: plain values with defaults. Nothing is checked or opened here.
//!
//! The names of choices are the same in the configuration and on command lines, so each choice is one type.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::control_group::ControlGroups;
use super::head::Head;
use super::kv_choice::KvChoices;
use super::kv_memory::KvMemory;
use super::tower_file::TowerFile;
use crate::choice::Choice;
use crate::cpu::Precision;
#[cfg(feature = "cuda")]
use crate::cuda::MemoryKind;
use crate::executor::MemoryEstimate;
use crate::graph::GraphOptions;
use crate::kv::Reuse;
use crate::quant::DType;
use crate::runner::LogitsObserver;
use crate::vision::Limits;

/// The executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best one that this build and this machine support.
    #[default]
    Auto,
    Cuda,
    Cpu,
}

impl Choice for Backend {
    const ALL: &'static [Self] = &[Self::Auto, Self::Cuda, Self::Cpu];

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Auto => "The best that this build and this machine have",
            _ => "",
        }
    }
}

/// The type of the inputs of matrix products on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    #[default]
    F16,
    Bf16,
}

impl Choice for Activations {
    const ALL: &'static [Self] = &[Self::F16, Self::Bf16];

    fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl From<Activations> for DType {
    fn from(activations: Activations) -> Self {
        match activations {
            Activations::F16 => Self::F16,
            Activations::Bf16 => Self::BF16,
        }
    }
}

/// The memory of weights or cache on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Unified memory on an integrated GPU, and the GPU's own on others.
    #[default]
    Auto,
    Device,
    Unified,
}

#[cfg(feature = "cuda")]
impl Placement {
    /// Returns the kind of memory; `None` for `Auto`.
    pub(super) const fn kind(self) -> Option<MemoryKind> {
        match self {
            Self::Auto => None,
            Self::Device => Some(MemoryKind::Device),
            Self::Unified => Some(MemoryKind::Unified),
        }
    }
}

impl Choice for Placement {
    const ALL: &'static [Self] = &[Self::Auto, Self::Device, Self::Unified];

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Device => "device",
            Self::Unified => "unified",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Auto => "Unified on an integrated GPU, the device's own on others",
            _ => "",
        }
    }
}

/// How to run a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub backend: Backend,
    pub vision: VisionSettings,
    /// What the model needs because it sees images. The loader sets it.
    pub tower: TowerNeeds,
    pub kv_type: KvChoices,
    /// Tokens of the text that q8_0 for K is measured with. Nothing is measured if it is empty.
    pub probe: Vec<u32>,
    /// The context length; 0 is that which the model was trained for.
    pub context: usize,
    /// Whether `context` is a default, so that a shorter context of the model replaces it.
    pub shortens: bool,
    pub kv_memory: KvMemory,
    /// The bytes of the cache that are allocated and released at once, at least a page.
    pub kv_chunk: usize,
    /// How long memory of the cache stays unused before it is released.
    pub kv_rest: Duration,
    /// Which pages of earlier requests a new one may share.
    pub reuse: Reuse,
    /// Whether to load the head that guesses tokens.
    pub head: Head,
    /// The most rows of a step, at most 8. Their memory is allocated at the start.
    pub rows: usize,
    pub graph: GraphOptions,
    /// The number of threads of the CPU executor; 0 is one for each core.
    pub threads: usize,
    /// The precision of activations on the CPU.
    pub precision: Precision,
    /// The most rows of a prompt that run at once; 0 is the executor's choice.
    pub prefill_chunk: usize,
    /// The bytes that admission leaves to other programs.
    pub reserve: u64,
    /// The file with `MemAvailable`, which tests replace.
    pub meminfo: PathBuf,
    /// The control groups whose limits count; `None` if another process will load the model.
    pub groups: Option<ControlGroups>,
    /// Whether the CPU launches steps ahead as a GPU does: for tests, because it gains nothing.
    pub launch_ahead: bool,
    /// The draft model, or the assistant: a `.gguf` file or a safetensors directory. `runner_with_draft` alone loads it.
    pub draft: Option<PathBuf>,
    /// Sees the logits that each token is chosen from: for tests.
    pub observer: Option<LogitsObserver>,
    pub cuda: CudaSettings,
}

/// Whether and how a model sees images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisionSettings {
    pub tower: TowerFile,
    /// The most pixels of one image as received.
    pub max_pixels: u64,
    /// The most tokens of one image; 0 means that the model sees none.
    pub max_tokens: u32,
    /// Bytes of encoded images that stay in memory for later requests.
    pub cache: u64,
}

impl Default for VisionSettings {
    fn default() -> Self {
        Self {
            tower: TowerFile::default(),
            max_pixels: Limits::USUAL_PIXELS,
            max_tokens: 1024,
            cache: 64 << 20,
        }
    }
}

/// What a model needs besides its own memory because it sees images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TowerNeeds {
    /// The tower on the CPU, an image from its bytes to its embeddings, and the images that stay encoded.
    pub on_cpu: MemoryEstimate,
    /// The same with the tower on a GPU that shares the CPU's memory, where it needs the most. `None` if a buffer would exceed
    /// the largest allocation.
    #[cfg(feature = "cuda")]
    pub on_gpu: Option<MemoryEstimate>,
    /// The rows of a prompt that must run at once, because they are of one image and see each other.
    pub rows: usize,
}

impl TowerNeeds {
    /// Whether there is a tower.
    pub(crate) fn has_tower(&self) -> bool {
        self.on_cpu.weights > 0
    }
}

/// Without a tower.
impl Default for TowerNeeds {
    fn default() -> Self {
        Self {
            on_cpu: MemoryEstimate::default(),
            #[cfg(feature = "cuda")]
            on_gpu: Some(MemoryEstimate::default()),
            rows: 0,
        }
    }
}

/// The settings of the CUDA backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// The type of the inputs of matrix products, f16 or bf16.
    pub activations: DType,
    pub weights: Placement,
    pub kv: Placement,
    pub spin: Duration,
    /// Whether a discrete GPU refuses what an Orin does not support.
    pub emulate_tegra: bool,
    /// The multiprocessors of the GPU partition, rounded up; `None` is the whole GPU.
    pub multiprocessors: Option<u32>,
}

impl Default for CudaSettings {
    fn default() -> Self {
        Self {
            activations: DType::F16,
            weights: Placement::Auto,
            kv: Placement::Auto,
            spin: Duration::from_micros(50),
            emulate_tegra: false,
            multiprocessors: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            vision: VisionSettings::default(),
            tower: TowerNeeds::default(),
            kv_type: KvChoices::default(),
            probe: Vec::new(),
            context: 2048,
            shortens: false,
            kv_memory: KvMemory::Conversations(1),
            kv_chunk: 64 << 20,
            kv_rest: Duration::from_secs(30),
            reuse: Reuse::Fast,
            head: Head::default(),
            rows: 1,
            graph: GraphOptions::default(),
            threads: 0,
            precision: Precision::default(),
            prefill_chunk: 0,
            reserve: 128 << 20,
            meminfo: "/proc/meminfo".into(),
            groups: Some(ControlGroups::default()),
            launch_ahead: false,
            draft: None,
            observer: None,
            cuda: CudaSettings::default(),
        }
    }
}
