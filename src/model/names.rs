//! The names of weights in GGUF files and in Hugging Face's files.

use crate::model::weights::{Layer, Linear};

/// A naming scheme: the layer's names follow `layer_prefix` and its number.
#[derive(Debug)]
pub(in crate::model) struct Names {
    /// Prefixes of all names, and of the head's name. Multimodal models have further parts with other prefixes.
    pub(in crate::model) prefixes: &'static [[&'static str; 2]],
    pub(in crate::model) embedding: &'static str,
    pub(in crate::model) output_norm: &'static str,
    pub(in crate::model) head: &'static str,
    pub(in crate::model) layer_prefix: &'static str,
    pub(in crate::model) layer: Layer<&'static str>,
    /// The tensor that holds the rows of Q, K and V one after the other.
    pub(in crate::model) joined_qkv: Option<&'static str>,
    /// The tensor that holds the rows of gate and up one after the other.
    pub(in crate::model) joined_mlp: Option<&'static str>,
    /// What is added to the stored values of norms.
    pub(in crate::model) norms_added: f32,
    /// Tensors of a layer that change its result and that `forward` does not support.
    pub(in crate::model) refused: &'static [&'static str],
}

const fn linear(weight: &'static str, bias: &'static str) -> Linear<&'static str> {
    Linear {
        weight,
        bias: Some(bias),
    }
}

pub(in crate::model) const GGUF: Names = Names {
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
        attention_after: None,
        mlp_norm: "ffn_norm.weight",
        gate: "ffn_gate.weight",
        up: "ffn_up.weight",
        down: "ffn_down.weight",
        mlp_after: None,
    },
    joined_qkv: None,
    joined_mlp: None,
    norms_added: 0.0,
    refused: &[
        "attn_norm.bias",
        "attn_output.bias",
        "ffn_norm.bias",
        "ffn_gate.bias",
        "ffn_up.bias",
        "ffn_down.bias",
        "ffn_gate_inp.weight",
        "attn_qkv.bias",
    ],
};

pub(in crate::model) const HUGGING_FACE: Names = Names {
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
        attention_after: None,
        mlp_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj.weight",
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
        mlp_after: None,
    },
    joined_qkv: None,
    joined_mlp: None,
    norms_added: 0.0,
    refused: &[
        "self_attn.o_proj.bias",
        "mlp.gate_proj.bias",
        "mlp.up_proj.bias",
        "mlp.down_proj.bias",
        "mlp.gate.weight",
        "self_attn.qkv_proj.bias",
        "mlp.gate_up_proj.bias",
    ],
};
