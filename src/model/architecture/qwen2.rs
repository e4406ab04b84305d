//! Qwen2 and Qwen2.5: a bias on Q, K and V.

use super::family::{Architecture, Defaults, PLAIN};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    gguf: "qwen2",
    biased: true,
    defaults: Defaults {
        kv_heads: Some(32),
        ..Defaults::PLAIN
    },
    ..PLAIN
};
