//! The names of weights in GGUF files and in Hugging Face's files.

use crate::model::weights::{Layer, Linear};

/// A naming scheme: the layer's names follow `layer_prefix` and its number.
pub(super) struct Names {
    /// Prefixes of all names, and of the head's name. Multimodal models have further parts with other prefixes.
    pub(super) prefixes: &'static [[&'static str; 2]],
    pub(super) embedding: &'static str,
    pub(super) output_norm: &'static str,
    pub(super) head: &'static str,
    pub(super) layer_prefix: &'static str,
    pub(super) layer: Layer<&'static str>,
    /// Tensors of a layer that change its result and that `forward` does not support.
    pub(super) refused: &'static [&'static str],
}

const fn linear(weight: &'static str, bias: &'static str) -> Linear<&'static str> {
    Linear {
        weight,
        bias: Some(bias),
    }
}

pub(super) const GGUF: Names = Names {
    prefixes: &[["", ""]],
    embedding: "token_embd.weight",
    output_norm: "output_norm.weight",
    head: "output.weight",
    layer_prefix: "blk.",
    layer: Layer {
        attention_norm: "attn_norm.weight",
        q: linear("attn_q.weight", "attn_q.bias"),
        k: linear("attn_k.weight", "attn_k.bias"),
        v: linear("attn_v.weight", "attn_v.bias"),
        q_norm: Some("attn_q_norm.weight"),
        k_norm: Some("attn_k_norm.weight"),
        output: "attn_output.weight",
        mlp_norm: "ffn_norm.weight",
        gate: "ffn_gate.weight",
        up: "ffn_up.weight",
        down: "ffn_down.weight",
    },
    refused: &[
        "attn_norm.bias",
        "attn_output.bias",
        "ffn_norm.bias",
        "ffn_gate.bias",
        "ffn_up.bias",
        "ffn_down.bias",
        "ffn_gate_inp.weight",
    ],
};

pub(super) const HUGGING_FACE: Names = Names {
    prefixes: &[
        ["model.", ""],
        ["language_model.model.", "language_model."],
        ["model.language_model.", ""],
    ],
    embedding: "embed_tokens.weight",
    output_norm: "norm.weight",
    head: "lm_head.weight",
    layer_prefix: "layers.",
    layer: Layer {
        attention_norm: "input_layernorm.weight",
        q: linear("self_attn.q_proj.weight", "self_attn.q_proj.bias"),
        k: linear("self_attn.k_proj.weight", "self_attn.k_proj.bias"),
        v: linear("self_attn.v_proj.weight", "self_attn.v_proj.bias"),
        q_norm: Some("self_attn.q_norm.weight"),
        k_norm: Some("self_attn.k_norm.weight"),
        output: "self_attn.o_proj.weight",
        mlp_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
    },
    refused: &[
        "self_attn.o_proj.bias",
        "mlp.gate_proj.bias",
        "mlp.up_proj.bias",
        "mlp.down_proj.bias",
        "mlp.gate.weight",
    ],
};
