//! Granite 4 without experts: Granite, with Mamba-2 in most layers of the hybrid members.

use super::family::{Architecture, Keys};
use super::granite::{multiply, stop_rotation};
use super::lists::layer_list;
use super::llama::LLAMA;
use crate::model::error::Defect;
use crate::model::names::{GGUF, HUGGING_FACE, Names};
use crate::model::shape::{Mamba2Shape, MixerShape, Shape};
use crate::model::weights::Mlp;

const CONFIG_NAMES: Names = Names {
    mlp: Mlp {
        down: "shared_mlp.output_linear.weight",
        ..HUGGING_FACE.mlp
    },
    joined_mlp: Some("shared_mlp.input_linear.weight"),
    refused: &[
        "block_sparse_moe.router.layer.weight",
        "mamba.in_proj.bias",
        "mamba.out_proj.bias",
        "self_attn.o_proj.bias",
    ],
    ..HUGGING_FACE
};

pub(super) const GRANITEMOEHYBRID: Architecture = Architecture {
    name: "granitemoehybrid",
    gguf: "granitehybrid",
    names: [&CONFIG_NAMES, &GGUF],
    renamed: &[("intermediate_size", "shared_intermediate_size")],
    layer_types: &["mamba", "attention", "linear_attention", "full_attention"],
    from_config,
    from_gguf: |keys, shape| {
        recur(shape, recurrent(keys)?);
        stop_rotation(keys, shape)
    },
    ..LLAMA
};

fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let experts = keys.size("num_local_experts")?;
    if experts != Some(0) {
        let found = experts.map_or_else(|| "missing".into(), |experts| experts.to_string());
        let allowed = "only 0 is computed: models with experts are not supported";
        return Err(Defect::bad_value("num_local_experts", found, allowed));
    }
    multiply(keys, shape)?;
    let kinds = layer_list(keys, shape.layers.len())?;
    for (layer, kind) in shape.layers.iter_mut().zip(kinds.into_iter().flatten()) {
        if kind == "mamba" || kind == "linear_attention" {
            // As in a GGUF file, a layer without KV heads is recurrent.
            if let Some(attention) = layer.attention_mut() {
                attention.kv_heads = 0;
            }
        }
    }
    let or = |key: &str, usual| Ok::<_, Defect>(keys.size(key)?.unwrap_or(usual));
    let (expand, heads) = (or("mamba_expand", 2)?, or("mamba_n_heads", 128)?);
    let inner = shape.hidden.saturating_mul(expand);
    recur(
        shape,
        Mamba2Shape {
            heads,
            head_dim: inner.checked_div(heads).unwrap_or(0),
            groups: or("mamba_n_groups", 1)?,
            state: or("mamba_d_state", 256)?,
            kernel: or("mamba_d_conv", 4)?,
        },
    );
    if keys.word("position_embedding_type")?.as_deref() != Some("rope") {
        for (_, attention) in shape.attention_mut() {
            attention.angles = None;
        }
    }
    Ok(())
}

/// Reads Mamba-2's dimensions from the keys of a GGUF file.
pub(super) fn recurrent(keys: &dyn Keys) -> Result<Mamba2Shape, Defect> {
    let heads = keys.needed("ssm.time_step_rank")?;
    let inner = keys.needed("ssm.inner_size")?;
    Ok(Mamba2Shape {
        heads,
        head_dim: inner.checked_div(heads).unwrap_or(0),
        groups: keys.needed("ssm.group_count")?,
        state: keys.needed("ssm.state_size")?,
        kernel: keys.needed("ssm.conv_kernel")?,
    })
}

/// Makes layers without KV heads recurrent.
pub(super) fn recur(shape: &mut Shape, recurrent: Mamba2Shape) {
    for layer in &mut shape.layers {
        if layer.attention().is_some_and(|of| of.kv_heads == 0) {
            layer.mixer = Some(MixerShape::Mamba2(recurrent));
        }
    }
}
