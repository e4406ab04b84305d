//! Qwen3.5: three gated `DeltaNet` layers of four, and attention with a gate, which rotates a quarter of each head.

use super::family::{Architecture, Defaults, Keys, PLAIN};
use super::lists::{flags_or, layer_list};
use super::qwen3_vl::read_sections;
use crate::model::error::Defect;
use crate::model::names::{GGUF, GuessNames, HUGGING_FACE, Names};
use crate::model::shape::{DeltaNetShape, LayerShape, MixerShape, Shape};
use crate::model::weights::Mlp;
use crate::tape::HeadOrder;

const CONFIG_NAMES: Names = Names {
    norms_added: 1.0,
    guess: Some(GuessNames {
        layers: Some("mtp.layers."),
        prefix: Some("mtp"),
        embedding_norm: "pre_fc_norm_embedding.weight",
        hidden_norm: "pre_fc_norm_hidden.weight",
        join: "fc.weight",
        output_norm: "norm.weight",
        head: "shared_head.head.weight",
        embedding: "embed_tokens.weight",
    }),
    ..HUGGING_FACE
};

const GGUF_NAMES: Names = Names {
    mlp: Mlp {
        norm: "post_attention_norm.weight",
        ..GGUF.mlp
    },
    guess: Some(GuessNames {
        layers: None,
        prefix: None,
        embedding_norm: "nextn.enorm.weight",
        hidden_norm: "nextn.hnorm.weight",
        join: "nextn.eh_proj.weight",
        output_norm: "nextn.shared_head_norm.weight",
        head: "nextn.shared_head_head.weight",
        embedding: "nextn.embed_tokens.weight",
    }),
    ..GGUF
};

/// Every layer of this number has attention, if a file does not list the layers.
const INTERVAL: usize = 4;
/// Pairs that rotate by each part of a position, if a file does not say.
const SECTIONS: [usize; 3] = [11, 11, 10];

pub(super) const QWEN3_5: Architecture = Architecture {
    name: "qwen3_5",
    aliases: &["qwen3_5_text"],
    gguf: "qwen35",
    head_norms: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    own_keys: &[
        "partial_rotary_factor",
        "rope.dimension_count",
        "attention.recurrent_layers",
    ],
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
    let attends: Vec<bool> = match layer_list(keys, count)? {
        Some(kinds) => kinds.iter().map(|kind| kind == "full_attention").collect(),
        None => (0..count).map(|layer| attends(layer, interval)).collect(),
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
    shape.guess = guess_layer(keys, "mtp_num_hidden_layers", shape);
    read_sections(keys, shape, SECTIONS)
}

fn from_gguf(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let value_heads = keys.needed("ssm.time_step_rank")?;
    let delta_net = DeltaNetShape {
        key_heads: keys.needed("ssm.group_count")?,
        value_heads,
        key_dim: keys.needed("ssm.state_size")?,
        value_dim: keys
            .needed("ssm.inner_size")?
            .checked_div(value_heads)
            .unwrap_or(0),
        kernel: keys.needed("ssm.conv_kernel")?,
        order: HeadOrder::Tiled,
    };
    let interval = keys.size("full_attention_interval")?.unwrap_or(INTERVAL);
    let (key, count) = ("attention.recurrent_layers", shape.layers.len());
    let recurrent = flags_or(keys, key, count, |layer| !attends(layer, interval))?;
    let attends: Vec<bool> = recurrent.iter().map(|recurrent| !recurrent).collect();
    mix(shape, &attends, delta_net);
    shape.guess = guess_layer(keys, "nextn_predict_layers", shape);
    read_sections(keys, shape, SECTIONS)
}

/// Whether a layer has attention, if a file does not list the layers.
const fn attends(layer: usize, interval: usize) -> bool {
    (layer + 1).is_multiple_of(interval)
}

/// Returns the layer of a head that guesses tokens: it is like the model's with attention.
///
/// Of several such layers, only the first is computed, in all passes. Keys of the second one depend on hidden states of the
/// first one at all earlier positions, where a step computes only keys and values of the head.
fn guess_layer(keys: &dyn Keys, key: &str, shape: &Shape) -> Option<LayerShape> {
    let mut layers = shape.layers.iter();
    let attends = layers.find(|layer| layer.attention().is_some()).copied();
    attends.filter(|_| matches!(keys.size(key), Ok(Some(1..))))
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

#[cfg(test)]
mod tests {
    use super::super::tests::gguf::{ARRAY, Entry, UINT32, flags, of_gguf_with};
    use super::super::tests::of_gguf;

    #[test]
    fn a_file_can_list_the_recurrent_layers() {
        let with = |listed: &[u8], more: &[Entry<'_>]| {
            let (key, listed) = ("qwen35.attention.recurrent_layers", flags(listed));
            let entries = [&[(key, ARRAY, &listed[..])], more].concat();
            of_gguf_with("tiny-qwen3_5", &entries)
        };
        let usual = of_gguf("tiny-qwen3_5");
        let listed = with(&[1, 1, 1, 0], &[]).expect("it opens");
        assert_eq!(listed, usual);
        // A further layer makes guesses.
        let guessing = [
            ("qwen35.block_count", UINT32, &5_u32.to_le_bytes()[..]),
            ("qwen35.nextn_predict_layers", UINT32, &1_u32.to_le_bytes()),
        ];
        let listed = with(&[1, 1, 1, 0, 0], &guessing).expect("it opens");
        assert_eq!(listed, usual);
        let refused = with(&[1, 0, 1, 0], &[]).expect_err("it has other tensors");
        let said = refused.to_string();
        assert!(said.contains("blk.1.attn_q.weight is missing"), "{said}");
    }
}
