//! Phi-3 and Phi-4-mini: joined matrices, a rotation of a part of each head, and angles that depend on the length of the
//! cache (`LongRoPE`).

use super::family::{Architecture, Defaults, PLAIN};
use super::ministral3::slide;
use crate::model::names::{GGUF, HUGGING_FACE, Names};

const CONFIG_NAMES: Names = Names {
    joined_qkv: Some("self_attn.qkv_proj.weight"),
    joined_mlp: Some("mlp.gate_up_proj.weight"),
    ..HUGGING_FACE
};

const GGUF_NAMES: Names = Names {
    joined_qkv: Some("attn_qkv.weight"),
    joined_mlp: Some("ffn_up.weight"),
    ..GGUF
};

pub(super) const PHI3: Architecture = Architecture {
    name: "phi3",
    gguf: "phi3",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    // llama.cpp does not apply the window of its files.
    own_keys: &[
        "partial_rotary_factor",
        "rope.dimension_count",
        "attention.sliding_window",
    ],
    defaults: Defaults {
        epsilon: 1e-5,
        ..Defaults::PLAIN
    },
    from_config: |keys, shape| slide(keys, shape, None),
    ..PLAIN
};

#[cfg(test)]
mod tests {
    use super::super::tests::of_config;

    #[test]
    fn a_long_cache_has_other_angles() {
        let near = of_config("tiny-phi3", |_| ());
        assert_eq!(near.angles[0].frequencies.len(), 12);
        let within = |context| {
            let mut shape = near.clone();
            shape.rotate_within(context);
            shape.angles
        };
        assert_eq!(within(128), near.angles);
        assert_ne!(within(129), near.angles);
    }
}
