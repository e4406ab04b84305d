//! A model's dimensions from Hugging Face's `config.json`, and the refusal of what `forward` does not
//! compute.

use serde::Deserialize;

use crate::model::rope::{Llama3Scaling, Rope};
use crate::model::{Architecture, Defect, Shape};

#[derive(Debug, Deserialize)]
struct Config {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    /// Since transformers 5; before, `rope_theta` and `rope_scaling`.
    rope_parameters: Option<RopeParameters>,
    rope_scaling: Option<RopeParameters>,
    partial_rotary_factor: Option<f64>,
    hidden_act: Option<String>,
    use_sliding_window: Option<bool>,
    layer_types: Option<Vec<String>>,
    mlp_bias: Option<bool>,
    num_experts: Option<usize>,
    num_local_experts: Option<usize>,
    #[serde(rename = "quantization_config")]
    quantization: Option<serde::de::IgnoredAny>,
    tie_word_embeddings: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RopeParameters {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// The shape that a `config.json` describes, and whether its head is tied if it says so.
pub(super) fn read(text: &str) -> Result<(Shape, Option<bool>), Defect> {
    let malformed = |error: serde_json::Error| Defect::Malformed(error.to_string());
    let architecture = architecture(text)?;
    let config: Config = serde_json::from_str(text).map_err(malformed)?;
    config.refuse_uncomputed()?;
    let heads = config.num_attention_heads;
    let shape = Shape {
        architecture,
        layers: config.num_hidden_layers,
        hidden: config.hidden_size,
        heads,
        kv_heads: config.num_key_value_heads.unwrap_or(heads),
        head_dim: match config.head_dim {
            Some(head_dim) => head_dim,
            None => config.hidden_size.checked_div(heads).unwrap_or(0),
        },
        intermediate: config.intermediate_size,
        vocabulary: config.vocab_size,
        context: config.max_position_embeddings,
        #[allow(clippy::cast_possible_truncation)] // the reference computes in float32
        norm_epsilon: config.rms_norm_eps as f32,
        rope_frequencies: Vec::new(),
    };
    Ok((
        shape.with_rope(&config.rope()?)?,
        config.tie_word_embeddings,
    ))
}

fn architecture(text: &str) -> Result<Architecture, Defect> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: Option<String>,
        architectures: Option<Vec<String>>,
    }
    let kind: Kind =
        serde_json::from_str(text).map_err(|error| Defect::Malformed(error.to_string()))?;
    let class = kind
        .architectures
        .and_then(|classes| classes.into_iter().next());
    let name = kind
        .model_type
        .or_else(|| class.map(|class| class.trim_end_matches("ForCausalLM").to_lowercase()))
        .ok_or_else(|| Defect::MissingKey("model_type".into()))?;
    Architecture::from_name(&name).ok_or(Defect::UnknownArchitecture(name))
}

impl Config {
    fn refuse_uncomputed(&self) -> Result<(), Defect> {
        let refuse = |key: &str, value: String, allowed: &str| {
            Err(Defect::bad_value(
                key,
                value,
                format!("only {allowed} is computed"),
            ))
        };
        if let Some(activation) = self.hidden_act.as_ref().filter(|name| *name != "silu") {
            return refuse("hidden_act", activation.clone(), "silu");
        }
        if self.use_sliding_window == Some(true) {
            return refuse("use_sliding_window", "true".into(), "false");
        }
        let mut layers = self.layer_types.iter().flatten();
        if let Some(kind) = layers.find(|kind| *kind != "full_attention") {
            return refuse("layer_types", kind.clone(), "full_attention");
        }
        if self.mlp_bias == Some(true) {
            return refuse("mlp_bias", "true".into(), "false");
        }
        for (key, count) in [
            ("num_experts", self.num_experts),
            ("num_local_experts", self.num_local_experts),
        ] {
            if let Some(count) = count.filter(|count| *count > 0) {
                return refuse(key, count.to_string(), "0");
            }
        }
        if self.quantization.is_some() {
            let formats = "F32, F16 or BF16, or a GGUF file,";
            return refuse("quantization_config", "set".into(), formats);
        }
        Ok(())
    }

    fn rope(&self) -> Result<Rope, Defect> {
        let parameters = self
            .rope_parameters
            .clone()
            .or_else(|| self.rope_scaling.clone());
        let parameters = parameters.unwrap_or_default();
        #[allow(clippy::float_cmp)] // one is exact
        if let Some(factor) = parameters
            .partial_rotary_factor
            .or(self.partial_rotary_factor)
            .filter(|factor| *factor != 1.0)
        {
            let allowed = "only 1 is computed";
            return Err(Defect::bad_value("partial_rotary_factor", factor, allowed));
        }
        let number = |key: &str, value: Option<f64>| {
            value.ok_or_else(|| Defect::MissingKey(format!("{key} of the rope scaling")))
        };
        let scaling = match parameters.rope_type.as_deref() {
            None | Some("default") => None,
            Some("llama3") => Some(Llama3Scaling {
                factor: number("factor", parameters.factor)?,
                low_freq_factor: number("low_freq_factor", parameters.low_freq_factor)?,
                high_freq_factor: number("high_freq_factor", parameters.high_freq_factor)?,
                original_context: number(
                    "original_max_position_embeddings",
                    parameters.original_max_position_embeddings,
                )?,
            }),
            Some(other) => {
                let allowed = "only default and llama3 are computed";
                return Err(Defect::bad_value("rope_type", other, allowed));
            }
        };
        let theta = parameters
            .rope_theta
            .or(self.rope_theta)
            .unwrap_or(10_000.0);
        Ok(Rope { theta, scaling })
    }
}
