//! A model's dimensions from GGUF metadata, and the refusal of what `forward` does not compute.

use super::metadata::{Metadata, required};
use crate::model::architecture::{Architecture, Keys};
use crate::model::rope::{Rope, Scaling, Yarn};
use crate::model::shape::{Multipliers, Softcaps};
use crate::model::{Defect, Shape};

/// Keys that may be there only with the value that changes nothing.
const NEUTRAL: [(&str, f64); 5] = [
    ("expert_count", 0.0),
    ("attention.sliding_window", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("rope.scale_linear", 1.0),
];

/// The keys of a file's architecture.
struct Own<'a> {
    metadata: &'a Metadata,
    architecture: &'static Architecture,
}

impl Own<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture.gguf)
    }

    fn needed(&self, suffix: &str) -> Result<usize, Defect> {
        required(self.size(suffix), &self.key(suffix))
    }

    fn number(&self, suffix: &str) -> Result<Option<f32>, Defect> {
        #[allow(clippy::cast_possible_truncation)] // it was written as f32
        self.float(suffix)
            .map(|value| value.map(|value| value as f32))
    }
}

impl Keys for Own<'_> {
    fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        self.metadata.size(&self.key(key))
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        self.metadata.float(&self.key(key))
    }

    fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, Defect> {
        self.metadata.flags(&self.key(key))
    }
}

/// The shape, its rope frequencies not yet divided by the factors of `rope_freqs.weight`.
pub(super) fn read(
    metadata: &Metadata,
    architecture: &'static Architecture,
    vocabulary: usize,
) -> Result<Shape, Defect> {
    let own = Own {
        metadata,
        architecture,
    };
    own.refuse_uncomputed()?;
    let (hidden, heads) = (
        own.needed("embedding_length")?,
        own.needed("attention.head_count")?,
    );
    let head_dim = match own.size("attention.key_length")? {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    for suffix in ["attention.value_length", "rope.dimension_count"] {
        if let Some(value) = own.size(suffix)?
            && value != head_dim
        {
            let allowed = format!("only the head's dimension, {head_dim}, is computed");
            return Err(Defect::bad_value(own.key(suffix), value, allowed));
        }
    }
    let epsilon = "attention.layer_norm_rms_epsilon";
    let shape = Shape {
        layers: own.needed("block_count")?,
        hidden,
        heads,
        kv_heads: own.size("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        intermediate: own.needed("feed_forward_length")?,
        vocabulary,
        context: own.needed("context_length")?,
        norm_epsilon: required(own.number(epsilon), &own.key(epsilon))?,
        multipliers: own.multipliers()?,
        softcaps: Softcaps {
            scores: own
                .number("attn_logit_softcapping")?
                .filter(|cap| *cap != 0.0),
            logits: own
                .number("final_logit_softcapping")?
                .filter(|cap| *cap != 0.0),
        },
        ..Shape::plain(architecture.name)
    };
    shape.checked(&own.rope()?, |shape| (architecture.from_gguf)(&own, shape))
}

impl Own<'_> {
    fn refuse_uncomputed(&self) -> Result<(), Defect> {
        for (suffix, neutral) in NEUTRAL {
            let value = match self.size(suffix) {
                #[allow(clippy::cast_precision_loss)] // compared with zero and one
                Ok(value) => value.map(|value| value as f64),
                Err(_) => self.float(suffix)?,
            };
            #[allow(clippy::float_cmp)] // these values are exact
            if let Some(value) = value
                && value != neutral
            {
                let allowed = format!("only {neutral} is computed");
                return Err(Defect::bad_value(self.key(suffix), value, allowed));
            }
        }
        Ok(())
    }

    fn multipliers(&self) -> Result<Multipliers, Defect> {
        let logits = self.number("logit_scale")?.unwrap_or(1.0);
        Ok(Multipliers {
            embedding: self.number("embedding_scale")?.unwrap_or(1.0),
            scores: self
                .number("attention.scale")?
                .filter(|scale| *scale != 0.0),
            residual: self.number("residual_scale")?.unwrap_or(1.0),
            // It is what they are divided by.
            logits: 1.0 / logits,
        })
    }

    fn rope(&self) -> Result<Rope, Defect> {
        let kind = self.metadata.string(&self.key("rope.scaling.type"))?;
        let factor = self.float("rope.scaling.factor")?;
        let scaling = match kind.as_deref() {
            None | Some("none") => {
                #[allow(clippy::float_cmp)] // one is exact
                if let Some(factor) = factor.filter(|factor| *factor != 1.0) {
                    let key = self.key("rope.scaling.factor");
                    return Err(Defect::bad_value(key, factor, "only 1 is computed"));
                }
                None
            }
            Some("yarn") => Some(Scaling::Yarn(self.yarn(factor)?)),
            Some(other) => {
                return Err(Defect::bad_value(
                    self.key("rope.scaling.type"),
                    other,
                    "only \"none\" and \"yarn\" are computed; llama3 scaling is the tensor rope_freqs.weight",
                ));
            }
        };
        let theta = self.float("rope.freq_base")?.unwrap_or(10_000.0);
        Ok(Rope { theta, scaling })
    }

    fn yarn(&self, factor: Option<f64>) -> Result<Yarn, Defect> {
        let factor = required(Ok(factor), &self.key("rope.scaling.factor"))?;
        let original = self.needed("rope.scaling.original_context_length")?;
        // Where this is stated, scores have been scaled for it; else q and k grow.
        let scaled = self.float("rope.scaling.yarn_log_multiplier")?;
        let growth = match scaled.filter(|scaled| *scaled != 0.0) {
            Some(_) => 1.0,
            None => Yarn::growth(factor, 1.0),
        };
        let or = |suffix: &str, usual| Ok::<_, Defect>(self.float(suffix)?.unwrap_or(usual));
        Ok(Yarn {
            factor,
            #[allow(clippy::cast_precision_loss)] // contexts are far below 2^52
            original_context: original as f64,
            beta_fast: or("rope.scaling.yarn_beta_fast", 32.0)?,
            beta_slow: or("rope.scaling.yarn_beta_slow", 1.0)?,
            truncate: true,
            amplitude: growth * or("rope.scaling.attn_factor", 1.0)?,
        })
    }
}
