//! Gemma 4: RMS norms before and after each part of a block, normed heads that turn in two dimensions, gated MLPs,
//! clipped linear layers in the small models, and averaged patches.

use super::tower_family::{TensorSizes, TowerFamily, activation, float_or, rows, size_or};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::{GGUF, SIGLIP, TowerNames, linear, scale};
use crate::model::tower::shape::{
    Axis, PatchShape, Positions, ProjectorNorm, ProjectorShape, Reduction, TowerMlp, TowerRotation,
    TowerShape,
};
use crate::model::tower::weights::{Merger, TowerBlock, TowerQkv};
use crate::tape::{Activation, NormKind};

const FAMILY: &str = "gemma4";

const CONFIG_NAMES: TowerNames = TowerNames {
    roots: &[
        ["model.vision_tower.", "model.embed_vision."],
        ["vision_tower.", "embed_vision."],
    ],
    patch: linear("patch_embedder.input_proj.weight"),
    positions: "patch_embedder.position_embedding_table",
    block: TowerBlock {
        attention_norm: scale("input_layernorm.weight"),
        qkv: TowerQkv::Apart([
            linear("self_attn.q_proj.linear.weight"),
            linear("self_attn.k_proj.linear.weight"),
            linear("self_attn.v_proj.linear.weight"),
        ]),
        q_norm: Some("self_attn.q_norm.weight"),
        k_norm: Some("self_attn.k_norm.weight"),
        output: linear("self_attn.o_proj.linear.weight"),
        attention_after: Some("post_attention_layernorm.weight"),
        mlp_norm: scale("pre_feedforward_layernorm.weight"),
        gate: Some(linear("mlp.gate_proj.linear.weight")),
        up: linear("mlp.up_proj.linear.weight"),
        down: linear("mlp.down_proj.linear.weight"),
        mlp_after: Some("post_feedforward_layernorm.weight"),
    },
    standard: ["std_bias", "std_scale"],
    projector: Merger {
        norm: None,
        first: linear("embedding_projection.weight"),
        second: None,
    },
    unused: &[],
    ..SIGLIP
};

const GGUF_NAMES: TowerNames = TowerNames {
    patch: linear("patch_embd.weight"),
    block: TowerBlock {
        attention_norm: scale("ln1.weight"),
        qkv: TowerQkv::Apart([
            linear("attn_q.weight"),
            linear("attn_k.weight"),
            linear("attn_v.weight"),
        ]),
        q_norm: Some("attn_q_norm.weight"),
        k_norm: Some("attn_k_norm.weight"),
        output: linear("attn_out.weight"),
        attention_after: Some("attn_post_norm.weight"),
        mlp_norm: scale("ln2.weight"),
        gate: Some(linear("ffn_gate.weight")),
        up: linear("ffn_up.weight"),
        down: linear("ffn_down.weight"),
        mlp_after: Some("ffn_post_norm.weight"),
    },
    standard: ["std_bias", "std_scale"],
    projector: Merger {
        norm: None,
        first: linear("input_projection.weight"),
        second: None,
    },
    ..GGUF
};

pub(super) const GEMMA4: TowerFamily = TowerFamily {
    models: &["gemma4"],
    projector: "gemma4v",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    from_config,
    from_gguf,
};

/// The base of the rotation.
const THETA: f64 = 100.0;
/// The side of the square of patches that becomes a token.
const SIDE: usize = 3;

/// The values of a file.
struct Stated {
    size: usize,
    hidden: usize,
    blocks: usize,
    heads: usize,
    head_dim: usize,
    width: usize,
    activation: Activation,
    epsilon: f32,
    length: usize,
    theta: f64,
    side: usize,
    standardized: bool,
    text: usize,
}

fn from_config(keys: &dyn Keys) -> Result<TowerShape, Defect> {
    let of = |key: &str, default| size_or(keys, &format!("vision_config.{key}"), default);
    let heads = of("num_attention_heads", 12)?;
    let key = "vision_config.num_key_value_heads";
    let shared = size_or(keys, key, heads)?;
    if shared != heads {
        let allowed = format!("only {heads}, as many as attention heads, is computed");
        return Err(Defect::bad_value(key, shared, allowed));
    }
    let key = "vision_config.attention_bias";
    if keys.flag(key)? == Some(true) {
        return Err(Defect::bad_value(key, true, "only false is computed"));
    }
    let theta = keys.float("vision_config.rope_parameters.rope_theta")?;
    let activation = activation(
        keys,
        "vision_config.hidden_activation",
        Activation::GeluTanh,
    )?;
    let standardized = keys.flag("vision_config.standardize")?;
    shape(&Stated {
        size: of("patch_size", 16)?,
        hidden: of("hidden_size", 768)?,
        blocks: of("num_hidden_layers", 16)?,
        heads,
        head_dim: of("head_dim", 64)?,
        width: of("intermediate_size", 3072)?,
        activation,
        epsilon: float_or(keys, "vision_config.rms_norm_eps", 1e-6)?,
        length: of("position_embedding_size", 10 * 1024)?,
        theta: theta.unwrap_or(THETA),
        side: of("pooling_kernel_size", SIDE)?,
        standardized: standardized.unwrap_or(false),
        text: keys.needed("text_config.hidden_size")?,
    })
}

/// The file does not state the activation: llama.cpp takes another one than the model.
fn from_gguf(keys: &dyn Keys, sizes: TensorSizes<'_>) -> Result<TowerShape, Defect> {
    let table = sizes("v.position_embd.weight");
    let length = table.and_then(|sizes| sizes.get(1).copied()).unwrap_or(0);
    shape(&Stated {
        size: keys.needed("vision.patch_size")?,
        hidden: keys.needed("vision.embedding_length")?,
        blocks: keys.needed("vision.block_count")?,
        heads: keys.needed("vision.attention.head_count")?,
        head_dim: rows(sizes, "v.blk.0.attn_q_norm.weight")?,
        width: keys.needed("vision.feed_forward_length")?,
        activation: Activation::GeluTanh,
        epsilon: float_or(keys, "vision.attention.layer_norm_epsilon", 1e-6)?,
        length,
        theta: THETA,
        side: size_or(keys, "vision.projector.scale_factor", SIDE)?,
        standardized: keys.has_tensor("v.std_bias"),
        text: keys.needed("vision.projection_dim")?,
    })
}

fn shape(stated: &Stated) -> Result<TowerShape, Defect> {
    let Stated {
        hidden, epsilon, ..
    } = *stated;
    TowerShape {
        family: FAMILY,
        patch: PatchShape {
            size: stated.size,
            frames: 1,
            channels_last: true,
            in_blocks: false,
            recentered: true,
        },
        hidden,
        blocks: stated.blocks,
        heads: stated.heads,
        head_dim: stated.head_dim,
        scale: 1.0,
        mlp: TowerMlp {
            width: stated.width,
            gated: true,
            activation: stated.activation,
        },
        norm: NormKind::RootMeanSquare,
        epsilon,
        norms_results: true,
        norms_heads: true,
        positions: Positions::Axes {
            length: stated.length,
        },
        rotation: Some(TowerRotation {
            theta: stated.theta,
            axes: [Axis::Column, Axis::Row],
            parts: 2,
        }),
        norms_output: false,
        deepstack: Vec::new(),
        projector: ProjectorShape {
            side: stated.side,
            reduction: Reduction::Averaged {
                #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
                scale: (hidden as f32).sqrt(),
                standardized: stated.standardized,
            },
            norm: Some(ProjectorNorm {
                kind: NormKind::RootMeanSquare,
                epsilon,
                weighted: false,
                added: 0.0,
            }),
            text: stated.text,
            ..ProjectorShape::CONCATENATED
        },
    }
    .check()
}
