//! Gemma 3: norms before and after attention and the MLP, GELU, and layers that see only a window of positions, whose
//! rotation has its own base.

use std::num::NonZeroUsize;

use super::family::{Architecture, Defaults, Keys, PLAIN};
use super::lists::layer_list;
use crate::model::error::Defect;
use crate::model::names::{GGUF, HUGGING_FACE, Names};
use crate::model::rope::Rope;
use crate::model::shape::{JoinedLayers, Shape};
use crate::model::weights::{Attention, Mlp};
use crate::tape::Activation;

pub(super) const CONFIG_NAMES: Names = Names {
    attention: Attention {
        after: Some("post_attention_layernorm.weight"),
        ..HUGGING_FACE.attention
    },
    mlp: Mlp {
        norm: "pre_feedforward_layernorm.weight",
        after: Some("post_feedforward_layernorm.weight"),
        ..HUGGING_FACE.mlp
    },
    norms_added: 1.0,
    ..HUGGING_FACE
};

pub(super) const GGUF_NAMES: Names = Names {
    attention: Attention {
        after: Some("post_attention_norm.weight"),
        ..GGUF.attention
    },
    mlp: Mlp {
        after: Some("post_ffw_norm.weight"),
        ..GGUF.mlp
    },
    ..GGUF
};

/// Every layer of this number sees all positions, and the others see a window, if a file does not list the layers.
const PATTERN: usize = 6;
/// Positions that a layer with a window sees, if a config.json does not say.
const WINDOW: usize = 4096;
/// The base of the rotation in layers with a window, if a file does not say.
const LOCAL_THETA: f64 = 10_000.0;
/// The layers of Gemma 3 27B, whose scale of scores is not that of its heads. A GGUF file does not say so.
const LAYERS_OF_27B: usize = 62;

pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    aliases: &["gemma3_text"],
    gguf: "gemma3",
    head_norms: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    layer_types: &["full_attention", "sliding_attention"],
    own_keys: &[
        "hidden_activation",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
    ],
    defaults: Defaults {
        heads: Some(8),
        kv_heads: Some(4),
        head_dim: Some(256),
        vocabulary: Some(262_208),
        context: Some(131_072),
        theta: 1_000_000.0,
        tied: true,
        ..Defaults::PLAIN
    },
    from_config,
    from_gguf,
    ..PLAIN
};

#[allow(clippy::cast_possible_truncation)] // float32 is the reference
fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let scale = keys.float("query_pre_attn_scalar")?.unwrap_or(256.0);
    shape.multipliers.scores = Some(scale.powf(-0.5) as f32);
    let cap = |key| Ok::<_, Defect>(keys.float(key)?.map(|cap| cap as f32));
    shape.softcaps.scores = cap("attn_logit_softcapping")?;
    shape.softcaps.logits = cap("final_logit_softcapping")?;
    let pattern = keys.size("sliding_window_pattern")?;
    let pattern = pattern.or(keys.size("_sliding_window_pattern")?);
    let window = keys.size("sliding_window")?.unwrap_or(WINDOW);
    let listed = layer_list(keys, shape.layers.len())?;
    let slides = |layer: usize| match &listed {
        Some(listed) => listed[layer] == "sliding_attention",
        None => slides(layer, pattern.unwrap_or(PATTERN)),
    };
    shape_layers(shape, local_theta(keys)?, window, slides);
    Ok(())
}

/// Returns the base that a config.json states for the rotation in layers with a window.
pub(super) fn local_theta(keys: &dyn Keys) -> Result<f64, Defect> {
    for key in [
        "rope_scaling.sliding_attention.rope_theta",
        "rope_parameters.sliding_attention.rope_theta",
        "rope_local_base_freq",
    ] {
        if let Some(theta) = keys.float(key)? {
            return Ok(theta);
        }
    }
    Ok(LOCAL_THETA)
}

#[allow(clippy::cast_precision_loss)] // widths are far below 2^24
fn from_gguf(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let heads = shape.attention().next().map_or(1, |(_, of)| of.heads);
    if shape.layers.len() == LAYERS_OF_27B {
        let scale = (shape.hidden / heads) as f32;
        shape.multipliers.scores = Some(1.0 / scale.sqrt());
    }
    let theta = keys.float("rope.freq_base_swa")?;
    let window = keys.size("attention.sliding_window")?.unwrap_or(WINDOW);
    // Files may have a list or a number.
    let key = "attention.sliding_window_pattern";
    let (listed, pattern) = if keys.is_list(key) {
        (keys.flags(key, shape.layers.len())?, None)
    } else {
        (None, keys.size(key)?)
    };
    let slides = |layer: usize| match &listed {
        Some(listed) => listed[layer],
        None => slides(layer, pattern.unwrap_or(PATTERN)),
    };
    shape_layers(shape, theta.unwrap_or(LOCAL_THETA), window, slides);
    Ok(())
}

/// Whether a layer sees only a window.
fn slides(layer: usize, pattern: usize) -> bool {
    !(layer + 1).is_multiple_of(pattern)
}

/// Sets what both forms of a file share.
#[allow(clippy::cast_precision_loss)] // widths are far below 2^24
fn shape_layers(shape: &mut Shape, theta: f64, window: usize, slides: impl Fn(usize) -> bool) {
    shape.activation = Activation::GeluTanh;
    shape.images.joined = JoinedLayers::All;
    shape.multipliers.embedding = (shape.hidden as f32).sqrt();
    let local = Rope {
        theta,
        dims: None,
        scaling: None,
    };
    let head_dim = shape.attention().next().map_or(0, |(_, of)| of.head_dim);
    shape.angles.push(local.angles(head_dim));
    for (layer, attention) in shape.attention_mut() {
        if slides(layer) {
            attention.angles = Some(1);
            attention.window = NonZeroUsize::new(window);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::gguf::{ARRAY, UINT32, flags, of_gguf_with};
    use super::super::tests::of_config;
    use crate::model::Shape;

    fn windows(shape: &Shape) -> Vec<usize> {
        let windows = shape.attention().map(|(_, layer)| layer.window);
        windows
            .map(|window| window.map_or(0, usize::from))
            .collect()
    }

    #[test]
    fn every_sixth_layer_sees_all_positions_in_all_forms() {
        let shape = of_config("tiny-gemma3", |_| ());
        assert_eq!(windows(&shape), [16, 16, 16, 16, 16, 0]);
        let newer = of_config("tiny-gemma3", |config| {
            let members = config.as_object_mut().expect("an object");
            for key in [
                "_sliding_window_pattern",
                "sliding_window_pattern",
                "rope_scaling",
            ] {
                members.remove(key);
            }
            let theta = members.remove("rope_theta");
            let local = members.remove("rope_local_base_freq");
            config["layer_types"] = json!(
                ["sliding_attention"; 5]
                    .into_iter()
                    .chain(["full_attention"])
                    .collect::<Vec<_>>()
            );
            config["rope_parameters"] = json!({
                "full_attention": {"rope_theta": theta, "rope_type": "linear", "factor": 8.0},
                "sliding_attention": {"rope_theta": local, "rope_type": "default"},
            });
        });
        assert_eq!(newer, shape);
        let whole = of_config("tiny-gemma3", |config| {
            let text = config.take();
            *config = json!({"model_type": "gemma3", "text_config": text, "vision_config": {}});
        });
        assert_eq!(whole, shape);
    }

    #[test]
    fn a_file_can_state_which_layers_see_all_positions() {
        let with = |kind, value: &[u8]| {
            let key = "gemma3.attention.sliding_window_pattern";
            let shape = of_gguf_with("tiny-gemma3", &[(key, kind, value)]);
            windows(&shape.expect("it opens"))
        };
        let every_third = with(UINT32, &3_u32.to_le_bytes());
        assert_eq!(every_third, [16, 16, 0, 16, 16, 0]);
        let listed = with(ARRAY, &flags(&[0, 1, 1, 0, 1, 1]));
        assert_eq!(listed, [0, 16, 16, 0, 16, 16]);
        assert_eq!(with(ARRAY, &flags(&[1; 6])), [16; 6]);
    }

    #[test]
    fn a_model_of_another_activation_is_refused() {
        let refused = super::super::tests::read("tiny-gemma3", |config| {
            config["hidden_activation"] = Value::from("gelu");
        });
        assert!(
            refused
                .expect_err("it is refused")
                .contains("gelu_pytorch_tanh")
        );
    }
}
