//! Qwen3: an RMS norm over each head of Q and K.

use super::family::{Architecture, Defaults, PLAIN};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    gguf: "qwen3",
    head_norms: true,
    defaults: Defaults {
        kv_heads: Some(32),
        head_dim: Some(128),
        ..Defaults::PLAIN
    },
    ..PLAIN
};
