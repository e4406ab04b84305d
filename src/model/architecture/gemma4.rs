//! Gemma 4: Gemma 3 with heads by kind of layer, layers that read the keys and values of earlier ones, a factor of each
//! layer, and additional inputs of each layer.

use std::num::NonZeroUsize;

use super::family::{Architecture, Defaults, Keys, PLAIN};
use super::gemma3::{self, local_theta};
use super::lists::layer_list;
use crate::model::error::Defect;
use crate::model::names::Names;
use crate::model::rope::Rope;
use crate::model::shape::{self, JoinedLayers, KvSource, Shape};
use crate::tape::Activation;

const CONFIG_NAMES: Names = Names {
    layer_scale: Some("layer_scalar"),
    norms_added: 0.0,
    ..gemma3::CONFIG_NAMES
};

const GGUF_NAMES: Names = Names {
    layer_scale: Some("layer_output_scale.weight"),
    ..gemma3::GGUF_NAMES
};

/// Every layer of this number sees all positions, and the others see a window, if a config.json does not list the
/// layers.
const PATTERN: usize = 6;
/// Positions that a layer with a window sees, if a config.json does not say.
const WINDOW: usize = 512;
/// The size of a head in layers that see all positions, if a config.json does not say.
const WIDE_HEAD: usize = 512;
/// Columns of the additional input of a layer, if a config.json does not say.
const INPUT: usize = 256;
/// The tokens that have additional inputs, if a config.json does not say.
const INPUT_TOKENS: usize = 262_144;
/// The divisors of frequencies in a GGUF file.
const FACTORS: &str = "rope_freqs.weight";

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    aliases: &["gemma4_text"],
    gguf: "gemma4",
    head_norms: true,
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    layer_types: &["full_attention", "sliding_attention"],
    own_keys: &[
        "hidden_activation",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "per_layer_config",
        "use_bidirectional_attention",
    ],
    defaults: Defaults {
        heads: Some(8),
        kv_heads: Some(4),
        head_dim: Some(256),
        vocabulary: Some(262_144),
        context: Some(131_072),
        theta: 1_000_000.0,
        tied: true,
        scaled: true,
        ..Defaults::PLAIN
    },
    from_config,
    from_gguf,
    ..PLAIN
};

/// Assistants. All of their layers predict further tokens, and read the K and V of another model.
pub(in crate::model) const ASSISTANT: Architecture = Architecture {
    name: "gemma4_assistant",
    aliases: &[],
    gguf: "gemma4-assistant",
    own_keys: &[
        "hidden_activation",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "per_layer_config",
        "use_bidirectional_attention",
        "nextn_predict_layers",
    ],
    ..GEMMA4
};

/// The properties of layers, in either form of a file.
struct Layers {
    /// Whether each layer sees only a window.
    slide: Vec<bool>,
    window: usize,
    /// The base of the rotation in layers with a window.
    theta: f64,
    /// The size of a head in layers that see all positions, and in the others.
    head_dims: [usize; 2],
    /// The number of last layers that read the K and V of earlier ones.
    sharing: usize,
}

#[allow(clippy::cast_possible_truncation)] // float32 is the reference
fn from_config(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let count = shape.layers.len();
    let listed = layer_list(keys, count)?;
    let slides = |layer: usize| match &listed {
        // The last layer sees all positions, whatever the list says.
        _ if layer + 1 == count => false,
        Some(listed) => listed[layer] == "sliding_attention",
        None => !(layer + 1).is_multiple_of(PATTERN),
    };
    let local = shape.attention().next().map_or(0, |(_, of)| of.head_dim);
    let layers = Layers {
        slide: (0..count).map(slides).collect(),
        window: keys.size("sliding_window")?.unwrap_or(WINDOW),
        theta: local_theta(keys)?,
        head_dims: [keys.size("global_head_dim")?.unwrap_or(WIDE_HEAD), local],
        sharing: keys.size("num_kv_shared_layers")?.unwrap_or(0),
    };
    let one_projection = keys.flag("attention_k_eq_v")?.unwrap_or(false);
    let wide_heads = keys.size("num_global_key_value_heads")?;
    let wide_heads = wide_heads.filter(|_| one_projection);
    let newer = keys.has("per_layer_config");
    let double = keys.flag("use_double_wide_mlp")?.unwrap_or(false);
    layers.apply(shape, |layer| layers.slide[layer] || !one_projection)?;
    for (layer, slides) in layers.slide.iter().enumerate() {
        let own = |key: &str| keys.size(&format!("per_layer_config.{layer}.{key}"));
        let Some(attention) = shape.layers[layer].attention_mut() else {
            continue;
        };
        if newer {
            attention.head_dim = own("head_dim")?.unwrap_or(local);
            attention.kv_heads = own("num_key_value_heads")?.unwrap_or(attention.kv_heads);
        } else if !slides {
            attention.kv_heads = wide_heads.unwrap_or(attention.kv_heads);
        }
        let doubled = double && !attention.stores();
        if let Some(mlp) = shape.layers[layer].mlp.as_mut().filter(|_| doubled) {
            mlp.width = mlp.width.saturating_mul(2);
        }
    }
    let cap = keys.float("final_logit_softcapping")?;
    shape.softcaps.logits = cap.map(|cap| cap as f32);
    let input = keys.size("hidden_size_per_layer_input")?;
    let left_out = !keys.has("hidden_size_per_layer_input");
    shape.layer_input = input.unwrap_or(if left_out { INPUT } else { 0 });
    // Other texts are refused before.
    if keys
        .word("use_bidirectional_attention")
        .is_ok_and(|word| word.is_some())
    {
        shape.images.joined = JoinedLayers::Windows;
    }
    let token = keys.size("pad_token_id")?.unwrap_or(0);
    shape.images.token = u32::try_from(token).unwrap_or(u32::MAX);
    let tokens = keys.size("vocab_size_per_layer_input")?;
    let tokens = tokens.unwrap_or(INPUT_TOKENS);
    if shape.layer_input > 0 && tokens != shape.vocabulary {
        let allowed = format!(
            "only the vocabulary's size, {}, is computed",
            shape.vocabulary
        );
        return Err(Defect::bad_value(
            "vocab_size_per_layer_input",
            tokens,
            allowed,
        ));
    }
    Ok(())
}

fn from_gguf(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let (pattern, theta) = ("attention.sliding_window_pattern", "rope.freq_base_swa");
    let count = shape.layers.len();
    let slide = keys.flags(pattern, count)?;
    let slide = slide.ok_or_else(|| keys.missing(pattern))?;
    let wide = shape.attention().next().map_or(0, |(_, of)| of.head_dim);
    let local = keys.needed("attention.key_length_swa")?;
    for key in ["attention.value_length_swa", "rope.dimension_count_swa"] {
        if let Some(other) = keys.size(key)?.filter(|other| *other != local) {
            let allowed = format!("only the head's dimension, {local}, is computed");
            return Err(Defect::bad_value(keys.named(key), other, allowed));
        }
    }
    if !keys.has_tensor(FACTORS) {
        return Err(Defect::MissingTensor(FACTORS.into()));
    }
    let layers = Layers {
        slide,
        window: keys.needed("attention.sliding_window")?,
        theta: keys.float(theta)?.ok_or_else(|| keys.missing(theta))?,
        head_dims: [wide, local],
        sharing: keys.size("attention.shared_kv_layers")?.unwrap_or(0),
    };
    layers.apply(shape, |layer| {
        keys.has_tensor(&format!("blk.{layer}.attn_v.weight"))
    })?;
    let input = keys.size("embedding_length_per_layer_input")?;
    shape.layer_input = input.unwrap_or(0);
    // The file does not say so. No published model has both additional inputs and joined images.
    if shape.layer_input == 0 {
        shape.images.joined = JoinedLayers::Windows;
    }
    Ok(())
}

impl Layers {
    /// Sets what both forms of a file share. `projects` says which layers have a projection of V.
    #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
    fn apply(&self, shape: &mut Shape, projects: impl Fn(usize) -> bool) -> Result<(), Defect> {
        shape.activation = Activation::GeluTanh;
        shape.multipliers.embedding = (shape.hidden as f32).sqrt();
        shape.multipliers.scores = Some(1.0);
        let [wide, local] = self.head_dims;
        let rope = Rope {
            theta: self.theta,
            dims: None,
            scaling: None,
        };
        shape.angles.push(rope.angles(shape::head_dim(local)?));
        // The first of the last layers that store nothing. The first layer always stores.
        let first = shape.layers.len().saturating_sub(self.sharing);
        let first = if first == 0 {
            shape.layers.len()
        } else {
            first
        };
        for (layer, attention) in shape.attention_mut() {
            let slides = self.slide[layer];
            attention.norms_values = true;
            attention.head_dim = if slides { local } else { wide };
            attention.angles = Some(usize::from(slides));
            attention.window = NonZeroUsize::new(self.window).filter(|_| slides);
            let mut alike = self.slide[..first.min(layer)].iter();
            let source = alike.rposition(|other| *other == slides);
            attention.kv = match source.filter(|_| layer >= first) {
                Some(source) => KvSource::Layer(source),
                None if projects(layer) => KvSource::Projected,
                None => KvSource::Keys,
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{of_config, read};
    use crate::model::Shape;
    use crate::model::shape::KvSource;

    fn sources(shape: &Shape) -> Vec<KvSource> {
        shape.attention().map(|(_, of)| of.kv).collect()
    }

    #[test]
    fn the_last_layers_read_the_keys_of_the_last_layers_of_their_kind() {
        use KvSource::{Keys, Layer, Projected};
        let shape = of_config("tiny-gemma4", |_| ());
        let expected = [Projected, Projected, Projected, Layer(1), Layer(2)];
        assert_eq!(sources(&shape), expected);
        let kinds = shape.kv_kinds().map(|kind| (kind.layers, kind.head_dim));
        assert_eq!(kinds, [(1, 32), (2, 16)]);
        let dense = of_config("tiny-gemma4_dense", |_| ());
        assert_eq!(
            sources(&dense),
            [Projected, Projected, Keys, Projected, Keys]
        );
        let kinds = dense.kv_kinds().map(|kind| (kind.layers, kind.heads));
        assert_eq!(kinds, [(2, 1), (3, 2)]);
    }

    #[test]
    fn a_model_of_experts_is_refused() {
        for (key, value) in [
            ("enable_moe_block", json!(true)),
            ("num_experts", json!(128)),
            ("use_bidirectional_attention", json!("all")),
            ("vocab_size_per_layer_input", json!(256)),
            ("hidden_activation", Value::from("gelu")),
        ] {
            let refused = read("tiny-gemma4", |config| config[key] = value.clone());
            let said = refused.expect_err("it is refused");
            assert!(said.starts_with(key), "{said}");
        }
    }
}
