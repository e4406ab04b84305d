//! Values that are one of a few words.

use serde::Serialize;

/// A closed set of words in the file.
pub trait Choice: Copy + 'static {
    const ALL: &'static [Self];

    /// As it is written in the file.
    fn name(self) -> &'static str;

    /// The value called `name`.
    #[must_use]
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

/// What computes.
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

/// Where something lies on a GPU.
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
}

/// The number format of the KV cache.
#[allow(non_camel_case_types)] // the field writes them so
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    #[default]
    F16,
    F32,
    Bf16,
    #[serde(rename = "q8_0")]
    Q8_0,
}

impl Choice for KvType {
    const ALL: &'static [Self] = &[Self::F16, Self::F32, Self::Bf16, Self::Q8_0];

    fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
        }
    }
}

/// What is recorded and replayed, by the names that vLLM gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphMode {
    #[default]
    FullDecodeOnly,
    Full,
    Piecewise,
    None,
}

impl Choice for GraphMode {
    const ALL: &'static [Self] = &[
        Self::FullDecodeOnly,
        Self::Full,
        Self::Piecewise,
        Self::None,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::FullDecodeOnly => "full_decode_only",
            Self::Full => "full",
            Self::Piecewise => "piecewise",
            Self::None => "none",
        }
    }
}

/// The least severe event that is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Choice for Level {
    const ALL: &'static [Self] = &[
        Self::Error,
        Self::Warn,
        Self::Info,
        Self::Debug,
        Self::Trace,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
