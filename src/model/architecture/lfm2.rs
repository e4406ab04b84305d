//! LFM2: short gated convolutions, and attention in some layers.

use super::family::{Architecture, Defaults, Keys, PLAIN};
use super::lists::layer_list;
use crate::model::error::Defect;
use crate::model::names::{GGUF, HUGGING_FACE, Names};
use crate::model::shape::{MixerShape, Shape, ShortConvShape};
use crate::model::weights::{Attention, Mlp};

const CONFIG_NAMES: Names = Names {
    output_norm: "embedding_norm.weight",
    attention: Attention {
        norm: "operator_norm.weight",
        q_norm: Some("self_attn.q_layernorm.weight"),
        k_norm: Some("self_attn.k_layernorm.weight"),
        output: "self_attn.out_proj.weight",
        ..HUGGING_FACE.attention
    },
    mlp: Mlp {
        norm: "ffn_norm.weight",
        gate: Some("feed_forward.w1.weight"),
        up: "feed_forward.w3.weight",
        down: "feed_forward.w2.weight",
        ..HUGGING_FACE.mlp
    },
    refused: &[
        "conv.conv.bias",
        "conv.in_proj.bias",
        "conv.out_proj.bias",
        "feed_forward.gate.weight",
    ],
    ..HUGGING_FACE
};

const GGUF_NAMES: Names = Names {
    // The name notwithstanding, it norms the output.
    output_norm: "token_embd_norm.weight",
    ..GGUF
};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    gguf: "lfm2",
    head_norms: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    renamed: &[
        ("rms_norm_eps", "norm_eps"),
        ("intermediate_size", "block_ff_dim"),
        ("tie_word_embeddings", "tie_embedding"),
    ],
    layer_types: &["conv", "full_attention"],
    defaults: Defaults {
        kv_heads: Some(8),
        vocabulary: Some(65_536),
        context: Some(128_000),
        theta: 1_000_000.0,
        epsilon: 1e-5,
        tied: true,
        ..Defaults::PLAIN
    },
    from_config,
    from_gguf: |keys, shape| {
        let kernel = keys.needed("shortconv.l_cache")?;
        for layer in &mut shape.layers {
            // A layer without KV heads is a convolution.
            if layer.attention().is_some_and(|of| of.kv_heads == 0) {
                layer.mixer = Some(MixerShape::ShortConv(ShortConvShape { kernel }));
            }
        }
        Ok(())
    },
    ..PLAIN
};

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // a width, as the reference computes it
fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let count = shape.layers.len();
    let attends: Vec<bool> = match layer_list(keys, count)? {
        Some(kinds) => kinds.iter().map(|kind| kind == "full_attention").collect(),
        None => match keys.sizes("full_attn_idxs")? {
            Some(those) => (0..count).map(|layer| those.contains(&layer)).collect(),
            None => vec![true; count],
        },
    };
    let kernel = keys.size("conv_L_cache")?.unwrap_or(3);
    let adjusts = keys.flag("block_auto_adjust_ff_dim")?.unwrap_or(true);
    let times = keys.float("block_ffn_dim_multiplier")?;
    let unit = keys.size("block_multiple_of")?.unwrap_or(256).max(1);
    for (layer, attends) in shape.layers.iter_mut().zip(attends) {
        if !attends {
            layer.mixer = Some(MixerShape::ShortConv(ShortConvShape { kernel }));
        }
        if let Some(mlp) = layer.mlp.as_mut().filter(|_| adjusts) {
            let width = 2 * mlp.width / 3;
            let width = times.map_or(width, |times| (times * width as f64) as usize);
            mlp.width = width.div_ceil(unit).saturating_mul(unit);
        }
    }
    Ok(())
}
