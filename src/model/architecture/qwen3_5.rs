//! Qwen3.5: three gated `DeltaNet` layers of four, and attention with a gate, which rotates a quarter of each head.

use super::family::{Architecture, Defaults, Keys, PLAIN, listed};
use crate::model::error::Defect;
use crate::model::names::{GGUF, HUGGING_FACE, Names};
use crate::model::shape::{DeltaNetShape, MixerShape, Shape};
use crate::model::weights::Mlp;
use crate::tape::HeadOrder;

const CONFIG_NAMES: Names = Names {
    norms_added: 1.0,
    ..HUGGING_FACE
};

const GGUF_NAMES: Names = Names {
    mlp: Mlp {
        norm: "post_attention_norm.weight",
        ..GGUF.mlp
    },
    ..GGUF
};

/// Every layer of this number has attention, if a file does not list the layers.
const INTERVAL: usize = 4;

pub(super) const QWEN3_5: Architecture = Architecture {
    name: "qwen3_5",
    aliases: &["qwen3_5_text"],
    gguf: "qwen35",
    head_norms: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    own_keys: &["partial_rotary_factor", "rope.dimension_count"],
    layer_types: &["linear_attention", "full_attention"],
    defaults: Defaults {
        heads: Some(16),
        kv_heads: Some(4),
        head_dim: Some(256),
        vocabulary: Some(248_320),
        context: Some(32_768),
        part: 0.25,
        ..Defaults::PLAIN
    },
    from_config,
    from_gguf,
    ..PLAIN
};

fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let count = shape.layers.len();
    let interval = keys.size("full_attention_interval")?.unwrap_or(INTERVAL);
    let attends: Vec<bool> = match listed(keys, "layer_types", count)? {
        Some(kinds) => kinds.iter().map(|kind| kind == "full_attention").collect(),
        None => (1..=count).map(|n| n.is_multiple_of(interval)).collect(),
    };
    let or = |key: &str, usual| Ok::<_, Defect>(keys.size(key)?.unwrap_or(usual));
    let recurrent = DeltaNetShape {
        key_heads: or("linear_num_key_heads", 16)?,
        value_heads: or("linear_num_value_heads", 32)?,
        key_dim: or("linear_key_head_dim", 128)?,
        value_dim: or("linear_value_head_dim", 128)?,
        kernel: or("linear_conv_kernel_dim", 4)?,
        order: HeadOrder::Grouped,
    };
    mix(shape, &attends, recurrent);
    Ok(())
}

fn from_gguf(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let interval = keys.size("full_attention_interval")?.unwrap_or(INTERVAL);
    let size = |key: &str| {
        let size = keys.size(key);
        size.and_then(|size| size.ok_or_else(|| Defect::MissingKey(format!("qwen35.{key}"))))
    };
    let value_heads = size("ssm.time_step_rank")?;
    let recurrent = DeltaNetShape {
        key_heads: size("ssm.group_count")?,
        value_heads,
        key_dim: size("ssm.state_size")?,
        value_dim: size("ssm.inner_size")?
            .checked_div(value_heads)
            .unwrap_or(0),
        kernel: size("ssm.conv_kernel")?,
        order: HeadOrder::Tiled,
    };
    let layers = 1..=shape.layers.len();
    let attends: Vec<bool> = layers.map(|n| n.is_multiple_of(interval)).collect();
    mix(shape, &attends, recurrent);
    Ok(())
}

fn mix(shape: &mut Shape, attends: &[bool], recurrent: DeltaNetShape) {
    for (layer, attends) in shape.layers.iter_mut().zip(attends) {
        if *attends {
            if let Some(attention) = layer.attention_mut() {
                attention.gated = true;
            }
        } else {
            layer.mixer = Some(MixerShape::DeltaNet(recurrent));
        }
    }
}
