//! Nemotron-H without experts: one mixer or one MLP a layer, and no rotation.

use super::family::{Architecture, Defaults, Keys, PLAIN};
use super::granitemoehybrid::{recur, recurrent};
use super::lists::layer_list;
use crate::model::error::Defect;
use crate::model::names::{GGUF, HUGGING_FACE, Names, linear};
use crate::model::shape::{Mamba2Shape, Shape};
use crate::model::weights::{Attention, Mamba2, Mlp};
use crate::tape::Activation;

const CONFIG_NAMES: Names = Names {
    prefixes: &[["backbone.", ""], ["model.", ""]],
    embedding: "embeddings.weight",
    output_norm: "norm_f.weight",
    attention: Attention {
        norm: "norm.weight",
        q: linear("mixer.q_proj.weight", "mixer.q_proj.bias"),
        k: Some(linear("mixer.k_proj.weight", "mixer.k_proj.bias")),
        v: Some(linear("mixer.v_proj.weight", "mixer.v_proj.bias")),
        output: "mixer.o_proj.weight",
        ..HUGGING_FACE.attention
    },
    mamba2: Mamba2 {
        norm: "norm.weight",
        gate: "mixer.in_proj.weight",
        input: "mixer.in_proj.weight",
        step: "mixer.in_proj.weight",
        conv: "mixer.conv1d.weight",
        conv_bias: "mixer.conv1d.bias",
        step_bias: "mixer.dt_bias",
        decay: "mixer.A_log",
        skip: "mixer.D",
        result_norm: "mixer.norm.weight",
        output: "mixer.out_proj.weight",
    },
    mlp: Mlp {
        norm: "norm.weight",
        up: "mixer.up_proj.weight",
        down: "mixer.down_proj.weight",
        ..HUGGING_FACE.mlp
    },
    refused: &[
        "mixer.gate.weight",
        "mixer.in_proj.bias",
        "mixer.out_proj.bias",
        "mixer.o_proj.bias",
        "mixer.up_proj.bias",
        "mixer.down_proj.bias",
    ],
    ..HUGGING_FACE
};

const GGUF_NAMES: Names = Names {
    mlp: Mlp {
        norm: "attn_norm.weight",
        ..GGUF.mlp
    },
    ..GGUF
};

pub(super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    gguf: "nemotron_h",
    // The rows of q and k have no pairs, because nothing rotates.
    interleaved: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    own_keys: &["rope.dimension_count"],
    layer_types: &[
        "M",
        "mamba",
        "linear_attention",
        "*",
        "attention",
        "full_attention",
        "-",
        "mlp",
    ],
    renamed: &[("rms_norm_eps", "layer_norm_epsilon")],
    defaults: Defaults {
        heads: Some(32),
        kv_heads: Some(8),
        head_dim: Some(128),
        vocabulary: Some(131_072),
        context: Some(4096),
        epsilon: 1e-5,
        ..Defaults::PLAIN
    },
    from_config,
    from_gguf: |keys, shape| {
        let mamba = recurrent(keys)?;
        for layer in &mut shape.layers {
            let attends = layer.attention().is_some_and(|of| of.kv_heads > 0);
            let transforms = layer.mlp.is_some_and(|mlp| mlp.width > 0);
            if transforms && !attends {
                layer.mixer = None;
            }
            layer.mlp = layer.mlp.filter(|_| transforms);
        }
        finish(shape, mamba);
        Ok(())
    },
    ..PLAIN
};

fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let kinds = layer_list(keys, shape.layers.len())?;
    let kinds = kinds.ok_or_else(|| keys.missing("layers_block_type"))?;
    for (layer, kind) in shape.layers.iter_mut().zip(&kinds) {
        match kind.as_str() {
            "M" | "mamba" | "linear_attention" => {
                layer.mlp = None;
                // As in a GGUF file, a layer without KV heads is recurrent.
                if let Some(attention) = layer.attention_mut() {
                    attention.kv_heads = 0;
                }
            }
            "*" | "attention" | "full_attention" => layer.mlp = None,
            _ => layer.mixer = None,
        }
    }
    let or = |key: &str, usual| Ok::<_, Defect>(keys.size(key)?.unwrap_or(usual));
    let mamba = Mamba2Shape {
        heads: or("mamba_num_heads", 128)?,
        head_dim: or("mamba_head_dim", 64)?,
        groups: or("n_groups", 8)?,
        state: or("ssm_state_size", 128)?,
        kernel: or("conv_kernel", 4)?,
    };
    finish(shape, mamba);
    Ok(())
}

/// Sets what both forms of a file share.
fn finish(shape: &mut Shape, mamba: Mamba2Shape) {
    shape.activation = Activation::SquaredRelu;
    for layer in &mut shape.layers {
        if let Some(attention) = layer.attention_mut() {
            attention.angles = None;
        }
        if let Some(mlp) = &mut layer.mlp {
            mlp.gated = false;
        }
    }
    recur(shape, mamba);
}
