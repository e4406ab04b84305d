//! How a model is to be run: plain values with their defaults. Nothing is checked or opened here.
//!
//! Words that stand for one of a few are the same in the configuration and on command lines: each is one type, here.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::ControlGroups;
use super::kv_choice::KvChoices;
use super::kv_memory::KvMemory;
use super::witness::Witness;
use crate::choice::Choice;
use crate::graph::GraphOptions;
use crate::kv::Reuse;
use crate::quant::DType;

/// Which executor to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best that this build and this machine have.
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

/// What matrix products take in on a GPU.
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

/// Where weights and cache lie on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Unified on an integrated GPU, the device's own on others.
    #[default]
    Auto,
    Device,
    Unified,
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
    pub kv_type: KvChoices,
    /// Tokens of the text that q8_0 for K is measured by; where there are none, nothing is measured.
    pub probe: Vec<u32>,
    /// Positions of the cache; 0 is as many as the model was trained for.
    pub context: usize,
    /// Whether `context` is a default, which a model that was trained for fewer positions shortens.
    pub shortens: bool,
    pub kv_memory: KvMemory,
    /// Bytes of the cache that are allocated and given back at once, or a page if that is more.
    pub kv_chunk: usize,
    /// How long what nobody needs of the cache's memory rests before it is given back.
    pub kv_rest: Duration,
    /// What of past turns serves others.
    pub reuse: Reuse,
    /// Conversations that may share a step, at most 8; the memory for so many is taken at the start.
    pub rows: usize,
    pub graph: GraphOptions,
    /// 0 is one for each core.
    pub threads: usize,
    /// Rows of a prompt that run at once, at least 1.
    pub prefill_chunk: usize,
    /// Bytes that admission leaves to the rest of the system.
    pub reserve: u64,
    /// Where `MemAvailable` is read: a test's own file takes its place.
    pub meminfo: PathBuf,
    /// Whose limits count besides; `None` where it is another process that is to load the model.
    pub groups: Option<ControlGroups>,
    /// The CPU launches steps before the tokens of those before them are known, as a GPU does: a test, for it gains nothing.
    pub launch_ahead: bool,
    /// Who sees what each token is chosen from: a test.
    pub witness: Option<Witness>,
    pub cuda: CudaSettings,
}

/// What only the CUDA backend asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// f16 or bf16: what matrix products take in.
    pub activations: DType,
    pub weights: Placement,
    pub kv: Placement,
    pub spin: Duration,
    /// Refuse on a discrete GPU what an Orin would not allow.
    pub emulate_tegra: bool,
    /// Run on a partition of so many multiprocessors, or a few more; `None` is the whole GPU.
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
            kv_type: KvChoices::default(),
            probe: Vec::new(),
            context: 2048,
            shortens: false,
            kv_memory: KvMemory::Conversations(1),
            kv_chunk: 64 << 20,
            kv_rest: Duration::from_secs(30),
            reuse: Reuse::Fast,
            rows: 1,
            graph: GraphOptions::default(),
            threads: 0,
            prefill_chunk: 0,
            reserve: 128 << 20,
            meminfo: "/proc/meminfo".into(),
            groups: Some(ControlGroups::default()),
            launch_ahead: false,
            witness: None,
            cuda: CudaSettings::default(),
        }
    }
}
