//! A model's dimensions from GGUF metadata, and the refusal of what `forward` does not compute.

use super::metadata::{Metadata, required};
use crate::model::rope::Rope;
use crate::model::{Architecture, Defect, Shape};

/// Keys that may be there only with the value that changes nothing.
const NEUTRAL: [(&str, f64); 10] = [
    ("expert_count", 0.0),
    ("attention.sliding_window", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.scale", 0.0),
    ("rope.scale_linear", 1.0),
    ("rope.scaling.factor", 1.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("embedding_scale", 1.0),
];

/// The shape, its rope frequencies not yet divided by the factors of `rope_freqs.weight`.
pub(super) fn read(
    metadata: &Metadata,
    architecture: Architecture,
    vocabulary: usize,
) -> Result<Shape, Defect> {
    let key = |suffix: &str| format!("{}.{suffix}", architecture.name());
    let size = |suffix: &str| required(metadata.size(&key(suffix)), &key(suffix));
    refuse_uncomputed(metadata, &key)?;

    let (hidden, heads) = (size("embedding_length")?, size("attention.head_count")?);
    let head_dim = match metadata.size(&key("attention.key_length"))? {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    for suffix in ["attention.value_length", "rope.dimension_count"] {
        if let Some(value) = metadata.size(&key(suffix))?
            && value != head_dim
        {
            let allowed = format!("only the head's dimension, {head_dim}, is computed");
            return Err(Defect::bad_value(key(suffix), value, allowed));
        }
    }
    let epsilon = key("attention.layer_norm_rms_epsilon");
    let theta = metadata.float(&key("rope.freq_base"))?.unwrap_or(10_000.0);
    Shape {
        architecture,
        layers: size("block_count")?,
        hidden,
        heads,
        kv_heads: metadata.size(&key("attention.head_count_kv"))?.unwrap_or(heads),
        head_dim,
        intermediate: size("feed_forward_length")?,
        vocabulary,
        context: size("context_length")?,
        #[allow(clippy::cast_possible_truncation)] // it was written as f32
        norm_epsilon: required(metadata.float(&epsilon), &epsilon)? as f32,
        rope_frequencies: Vec::new(),
    }
    .with_rope(&Rope {
        theta,
        scaling: None,
    })
}

fn refuse_uncomputed(metadata: &Metadata, key: &impl Fn(&str) -> String) -> Result<(), Defect> {
    for (suffix, neutral) in NEUTRAL {
        let key = key(suffix);
        let value = match metadata.size(&key) {
            #[allow(clippy::cast_precision_loss)] // compared with zero and one
            Ok(value) => value.map(|value| value as f64),
            Err(_) => metadata.float(&key)?,
        };
        #[allow(clippy::float_cmp)] // these values are exact
        if let Some(value) = value
            && value != neutral
        {
            return Err(Defect::bad_value(
                key,
                value,
                format!("only {neutral} is computed"),
            ));
        }
    }
    let scaling = key("rope.scaling.type");
    match metadata.string(&scaling)? {
        Some(kind) if kind != "none" => Err(Defect::bad_value(
            scaling,
            kind,
            "only \"none\" is computed; llama3 scaling is the tensor rope_freqs.weight",
        )),
        _ => Ok(()),
    }
}
