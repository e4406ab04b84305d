//! A model's dimensions from Hugging Face's `config.json`, and the refusal of what `forward` does not
//! compute.

use serde::Deserialize;
use serde_json::Value;

use crate::model::architecture::{Architecture, Keys};
use crate::model::rope::{Llama3, Rope, Scaling, Yarn};
use crate::model::{Defect, Shape};

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
    /// Files since transformers 5 have it; those before have `rope_theta` and `rope_scaling`.
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
    rope_type: Option<String>,
    /// As older files call it; newer ones may have both.
    #[serde(rename = "type")]
    kind: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    truncate: Option<bool>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
}

/// What a `config.json` describes.
pub(super) struct Described {
    pub(super) shape: Shape,
    pub(super) architecture: &'static Architecture,
    /// Whether the head is the embedding, if it says so.
    pub(super) tied: Option<bool>,
}

pub(super) fn read(text: &str) -> Result<Described, Defect> {
    let malformed = |error: serde_json::Error| Defect::Malformed(error.to_string());
    let whole: Value = serde_json::from_str(text).map_err(malformed)?;
    // A model that also sees or hears describes apart what it writes with.
    let text = whole.get("text_config").filter(|part| part.is_object());
    let text = text.unwrap_or(&whole);
    let architecture = architecture(text)?;
    let config = Config::deserialize(text).map_err(malformed)?;
    config.refuse_uncomputed()?;
    let heads = config.num_attention_heads;
    let shape = Shape {
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
        ..Shape::plain(architecture.name)
    };
    let own = |shape: &mut Shape| (architecture.from_config)(text, shape);
    let tied = whole.get("tie_word_embeddings").and_then(Value::as_bool);
    Ok(Described {
        shape: shape.checked(&config.rope()?, own)?,
        architecture,
        tied: config.tie_word_embeddings.or(tied),
    })
}

fn architecture(config: &Value) -> Result<&'static Architecture, Defect> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: Option<String>,
        architectures: Option<Vec<String>>,
    }
    let kind = Kind::deserialize(config).map_err(|error| Defect::Malformed(error.to_string()))?;
    let class = kind
        .architectures
        .and_then(|classes| classes.into_iter().next());
    let name = kind
        .model_type
        .or_else(|| class.map(|class| class.trim_end_matches("ForCausalLM").to_lowercase()))
        .ok_or_else(|| Defect::MissingKey("model_type".into()))?;
    Architecture::of_config(name)
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
        let kind = parameters.rope_type.as_ref().or(parameters.kind.as_ref());
        let scaling = match kind.map(String::as_str) {
            None | Some("default") => None,
            Some("llama3") => Some(Scaling::Llama3(parameters.llama3()?)),
            Some("yarn") => Some(Scaling::Yarn(
                parameters.yarn(self.max_position_embeddings)?,
            )),
            Some(other) => {
                let allowed = "only default, llama3 and yarn are computed";
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

fn stated(key: &str, value: Option<f64>) -> Result<f64, Defect> {
    value.ok_or_else(|| Defect::MissingKey(format!("{key} of the rope scaling")))
}

impl RopeParameters {
    fn llama3(&self) -> Result<Llama3, Defect> {
        Ok(Llama3 {
            factor: stated("factor", self.factor)?,
            low_freq_factor: stated("low_freq_factor", self.low_freq_factor)?,
            high_freq_factor: stated("high_freq_factor", self.high_freq_factor)?,
            original_context: stated(
                "original_max_position_embeddings",
                self.original_max_position_embeddings,
            )?,
        })
    }

    fn yarn(&self, context: usize) -> Result<Yarn, Defect> {
        let factor = stated("factor", self.factor)?;
        let scales = self.mscale.zip(self.mscale_all_dim);
        let scales = scales.filter(|(scale, all)| *scale != 0.0 && *all != 0.0);
        let amplitude = match (self.attention_factor, scales) {
            (Some(factor), _) => factor,
            (None, Some((scale, all))) => Yarn::growth(factor, scale) / Yarn::growth(factor, all),
            (None, None) => Yarn::growth(factor, 1.0),
        };
        #[allow(clippy::cast_precision_loss)] // contexts are far below 2^52
        let context = context as f64;
        Ok(Yarn {
            factor,
            original_context: self.original_max_position_embeddings.unwrap_or(context),
            beta_fast: self.beta_fast.unwrap_or(32.0),
            beta_slow: self.beta_slow.unwrap_or(1.0),
            truncate: self.truncate.unwrap_or(true),
            amplitude,
        })
    }
}

impl Keys for Value {
    fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        found(self, key, "it must be a whole number", |value| {
            value.as_u64().and_then(|value| usize::try_from(value).ok())
        })
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        found(self, key, "it must be a number", Value::as_f64)
    }

    fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, Defect> {
        let flag = |value: &Value| value.as_bool().or(value.as_u64().map(|value| value != 0));
        found(self, key, "it must be an array of 0 and 1", |value| {
            value.as_array()?.iter().map(flag).collect()
        })
    }
}

fn found<T>(
    config: &Value,
    key: &str,
    allowed: &str,
    convert: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, Defect> {
    let mut parts = key.split('.');
    let value = parts.try_fold(config, |within, part| within.get(part));
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let bad = || Defect::bad_value(key, value, allowed);
    convert(value).map(Some).ok_or_else(bad)
}
