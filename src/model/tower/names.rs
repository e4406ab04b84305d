//! The names of a tower's tensors in GGUF files and in Hugging Face's files.

use super::weights::{Merger, TowerBlock, TowerLinear, TowerNorm, TowerQkv};

/// A naming scheme.
#[derive(Debug)]
pub(in crate::model) struct TowerNames {
    /// Prefixes of the names of the tower and of its projector: the first pair under which the first product exists.
    pub(in crate::model) roots: &'static [[&'static str; 2]],
    pub(in crate::model) patch: TowerLinear<&'static str>,
    /// The kernel of the second picture of a patch, if it is a tensor of its own.
    pub(in crate::model) second_frame: Option<&'static str>,
    pub(in crate::model) positions: &'static str,
    /// The names of a block follow this and its number.
    pub(in crate::model) block_prefix: &'static str,
    pub(in crate::model) block: TowerBlock<&'static str>,
    pub(in crate::model) output_norm: TowerNorm<&'static str>,
    /// The names of a merger of `DeepStack` follow this and its number, or the number of its block.
    pub(in crate::model) deepstack_prefix: &'static str,
    pub(in crate::model) deepstack_by_block: bool,
    pub(in crate::model) deepstack: Merger<&'static str>,
    pub(in crate::model) standard: [&'static str; 2],
    /// The names of the projector, after its own prefix.
    pub(in crate::model) projector: Merger<&'static str>,
    /// Whether the only product of the projector is stored as (inputs, outputs).
    pub(in crate::model) transposed: bool,
    /// Whether the elements of a patch are (channel, y, x), whatever the order of the pixels.
    pub(in crate::model) channels_first: bool,
    /// Tensors that no forward pass reads, by the beginning of their names after a prefix.
    pub(in crate::model) unused: &'static [&'static str],
}

pub(in crate::model) const fn linear(weight: &'static str) -> TowerLinear<&'static str> {
    TowerLinear {
        weight,
        bias: None,
        clip: None,
    }
}

pub(in crate::model) const fn biased(
    weight: &'static str,
    bias: &'static str,
) -> TowerLinear<&'static str> {
    TowerLinear {
        weight,
        bias: Some(bias),
        clip: None,
    }
}

pub(in crate::model) const fn norm(
    weight: &'static str,
    bias: &'static str,
) -> TowerNorm<&'static str> {
    TowerNorm {
        weight,
        bias: Some(bias),
    }
}

/// A norm without a bias.
pub(in crate::model) const fn scale(weight: &'static str) -> TowerNorm<&'static str> {
    TowerNorm { weight, bias: None }
}

/// SigLIP in the files of Hugging Face.
pub(in crate::model) const SIGLIP: TowerNames = TowerNames {
    roots: &[],
    patch: biased(
        "embeddings.patch_embedding.weight",
        "embeddings.patch_embedding.bias",
    ),
    second_frame: None,
    positions: "embeddings.position_embedding.weight",
    block_prefix: "encoder.layers.",
    block: TowerBlock {
        attention_norm: norm("layer_norm1.weight", "layer_norm1.bias"),
        qkv: TowerQkv::Apart([
            biased("self_attn.q_proj.weight", "self_attn.q_proj.bias"),
            biased("self_attn.k_proj.weight", "self_attn.k_proj.bias"),
            biased("self_attn.v_proj.weight", "self_attn.v_proj.bias"),
        ]),
        q_norm: None,
        k_norm: None,
        output: biased("self_attn.out_proj.weight", "self_attn.out_proj.bias"),
        attention_after: None,
        mlp_norm: norm("layer_norm2.weight", "layer_norm2.bias"),
        gate: None,
        up: biased("mlp.fc1.weight", "mlp.fc1.bias"),
        down: biased("mlp.fc2.weight", "mlp.fc2.bias"),
        mlp_after: None,
    },
    output_norm: norm("post_layernorm.weight", "post_layernorm.bias"),
    deepstack_prefix: "",
    deepstack_by_block: false,
    deepstack: Merger {
        norm: None,
        first: linear(""),
        second: None,
    },
    standard: ["", ""],
    projector: Merger {
        norm: None,
        first: linear(""),
        second: None,
    },
    transposed: false,
    channels_first: false,
    // A pooling head, which language models do not read.
    unused: &["head.", "embeddings.position_ids"],
};

/// Towers in GGUF files.
pub(in crate::model) const GGUF: TowerNames = TowerNames {
    roots: &[["v.", "mm."]],
    patch: biased("patch_embd.weight", "patch_embd.bias"),
    second_frame: None,
    positions: "position_embd.weight",
    block_prefix: "blk.",
    block: TowerBlock {
        attention_norm: norm("ln1.weight", "ln1.bias"),
        qkv: TowerQkv::Apart([
            biased("attn_q.weight", "attn_q.bias"),
            biased("attn_k.weight", "attn_k.bias"),
            biased("attn_v.weight", "attn_v.bias"),
        ]),
        q_norm: None,
        k_norm: None,
        output: biased("attn_out.weight", "attn_out.bias"),
        attention_after: None,
        mlp_norm: norm("ln2.weight", "ln2.bias"),
        gate: None,
        up: biased("ffn_up.weight", "ffn_up.bias"),
        down: biased("ffn_down.weight", "ffn_down.bias"),
        mlp_after: None,
    },
    output_norm: norm("post_ln.weight", "post_ln.bias"),
    channels_first: true,
    unused: &[],
    ..SIGLIP
};
