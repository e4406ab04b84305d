//! Qwen3: an RMS norm over each head of Q and K.

use super::{Architecture, PLAIN};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    gguf: "qwen3",
    head_norms: true,
    ..PLAIN
};
