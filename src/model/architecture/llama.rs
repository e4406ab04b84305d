//! Llama 3.x and models of its shape, such as `SmolLM2`.

use super::family::{Architecture, PLAIN};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    gguf: "llama",
    interleaved: true,
    ..PLAIN
};
