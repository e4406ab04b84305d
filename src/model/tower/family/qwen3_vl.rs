//! Qwen3-VL and Qwen3.5: two pictures in a patch, stretched positions, heads that turn in two dimensions, and a merger
//! of 2 x 2 patches. Qwen3-VL also has `DeepStack`.

use super::siglip;
use super::tower_family::{
    TensorSizes, TowerFamily, activation, float_or, head_dim, only, side_of, size_or, usual_scale,
};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::{GGUF, SIGLIP, TowerNames, biased, norm};
use crate::model::tower::shape::{
    Axis, CHANNELS, PatchShape, Positions, ProjectorShape, TowerMlp, TowerRotation, TowerShape,
};
use crate::model::tower::weights::{Merger, TowerBlock, TowerQkv};
use crate::tape::{Activation, NormKind};

const FAMILY: &str = "qwen3_vl";

const CONFIG_NAMES: TowerNames = TowerNames {
    roots: &[["model.visual.", "model.visual."], ["visual.", "visual."]],
    patch: biased("patch_embed.proj.weight", "patch_embed.proj.bias"),
    positions: "pos_embed.weight",
    block_prefix: "blocks.",
    block: TowerBlock {
        attention_norm: norm("norm1.weight", "norm1.bias"),
        qkv: TowerQkv::Joined(biased("attn.qkv.weight", "attn.qkv.bias")),
        q_norm: None,
        k_norm: None,
        output: biased("attn.proj.weight", "attn.proj.bias"),
        attention_after: None,
        mlp_norm: norm("norm2.weight", "norm2.bias"),
        gate: None,
        up: biased("mlp.linear_fc1.weight", "mlp.linear_fc1.bias"),
        down: biased("mlp.linear_fc2.weight", "mlp.linear_fc2.bias"),
        mlp_after: None,
    },
    output_norm: norm("merger.norm.weight", "merger.norm.bias"),
    deepstack_prefix: "deepstack_merger_list.",
    deepstack: Merger {
        norm: Some(norm("norm.weight", "norm.bias")),
        first: biased("linear_fc1.weight", "linear_fc1.bias"),
        second: Some(biased("linear_fc2.weight", "linear_fc2.bias")),
    },
    projector: Merger {
        norm: None,
        first: biased("merger.linear_fc1.weight", "merger.linear_fc1.bias"),
        second: Some(biased("merger.linear_fc2.weight", "merger.linear_fc2.bias")),
    },
    unused: &[],
    ..SIGLIP
};

const GGUF_NAMES: TowerNames = TowerNames {
    second_frame: Some("patch_embd.weight.1"),
    block: TowerBlock {
        qkv: TowerQkv::Joined(biased("attn_qkv.weight", "attn_qkv.bias")),
        ..GGUF.block
    },
    deepstack_prefix: "deepstack.",
    deepstack_by_block: true,
    deepstack: Merger {
        norm: Some(norm("norm.weight", "norm.bias")),
        first: biased("fc1.weight", "fc1.bias"),
        second: Some(biased("fc2.weight", "fc2.bias")),
    },
    projector: Merger {
        norm: None,
        first: biased("0.weight", "0.bias"),
        second: Some(biased("2.weight", "2.bias")),
    },
    ..GGUF
};

pub(super) const QWEN3_VL: TowerFamily = TowerFamily {
    models: &["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"],
    projector: "qwen3vl_merger",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    from_config,
    from_gguf,
};

/// Pictures in a patch.
const FRAMES: usize = 2;
/// The base of the rotation.
const THETA: f64 = 10_000.0;
/// The blocks of `DeepStack` that a config.json of Qwen3-VL leaves out.
const DEEPSTACK: [usize; 3] = [8, 16, 24];

fn from_config(keys: &dyn Keys) -> Result<TowerShape, Defect> {
    let of = |key: &str, default| size_or(keys, &format!("vision_config.{key}"), default);
    only(keys, "vision_config.in_channels", CHANNELS)?;
    only(keys, "vision_config.temporal_patch_size", FRAMES)?;
    let (hidden, heads) = (of("hidden_size", 1152)?, of("num_heads", 16)?);
    let positions = "vision_config.num_position_embeddings";
    let count = size_or(keys, positions, 2304)?;
    let listed = keys.sizes("vision_config.deepstack_visual_indexes")?;
    // Qwen3.5 has none.
    let stacks = keys
        .word("model_type")?
        .is_some_and(|name| name.starts_with("qwen3_vl"));
    let usual = if stacks { &DEEPSTACK[..] } else { &[] };
    let activation = activation(keys, "vision_config.hidden_act", Activation::GeluTanh)?;
    let merge = of("spatial_merge_size", 2)?;
    let theta = keys.float("vision_config.rope_parameters.rope_theta")?;
    TowerShape {
        blocks: of("depth", 27)?,
        mlp: TowerMlp {
            width: of("intermediate_size", 4304)?,
            gated: false,
            activation,
        },
        epsilon: float_or(keys, "vision_config.layer_norm_eps", 1e-6)?,
        positions: Positions::Stretched {
            side: side_of(keys, positions, count)?,
        },
        rotation: Some(rotation(theta.unwrap_or(THETA))),
        deepstack: listed.unwrap_or_else(|| usual.to_vec()),
        ..shape(
            [hidden, heads],
            [of("patch_size", 16)?, merge],
            of("out_hidden_size", 3584)?,
        )?
    }
    .check()
}

fn from_gguf(keys: &dyn Keys, _: TensorSizes<'_>) -> Result<TowerShape, Defect> {
    let plain = siglip::of_gguf(keys, FAMILY)?;
    let size = plain.patch.size;
    let merge = size_or(keys, "vision.spatial_merge_size", 2)?;
    let image = keys.needed("vision.image_size")?;
    let stacked = keys.flags("vision.is_deepstack_layers", plain.blocks)?;
    let stacked = stacked.unwrap_or_default().into_iter().enumerate();
    let text = keys.needed("vision.projection_dim")?;
    TowerShape {
        blocks: plain.blocks,
        mlp: plain.mlp,
        epsilon: plain.epsilon,
        positions: Positions::Stretched {
            side: image.checked_div(size).unwrap_or(0),
        },
        rotation: Some(rotation(THETA)),
        deepstack: (stacked.filter(|(_, is)| *is).map(|(block, _)| block)).collect(),
        ..shape([plain.hidden, plain.heads], [size, merge], text)?
    }
    .check()
}

const fn rotation(theta: f64) -> TowerRotation {
    TowerRotation {
        theta,
        axes: [Axis::Row, Axis::Column],
        parts: 1,
    }
}

/// The parts that both forms of a file share. The others are left out.
fn shape(
    [hidden, heads]: [usize; 2],
    [size, merge]: [usize; 2],
    text: usize,
) -> Result<TowerShape, Defect> {
    let head_dim = head_dim(hidden, heads)?;
    Ok(TowerShape {
        family: FAMILY,
        patch: PatchShape {
            size,
            frames: FRAMES,
            channels_last: false,
            in_blocks: true,
            recentered: false,
        },
        hidden,
        blocks: 0,
        heads,
        head_dim,
        scale: usual_scale(head_dim),
        mlp: TowerMlp {
            width: 0,
            gated: false,
            activation: Activation::GeluTanh,
        },
        norm: NormKind::Layer,
        epsilon: 0.0,
        norms_results: false,
        norms_heads: false,
        positions: Positions::Stretched { side: 0 },
        rotation: None,
        norms_output: true,
        deepstack: Vec::new(),
        projector: ProjectorShape {
            side: merge,
            width: Some(merge.saturating_mul(merge).saturating_mul(hidden)),
            text,
            ..ProjectorShape::CONCATENATED
        },
    })
}
