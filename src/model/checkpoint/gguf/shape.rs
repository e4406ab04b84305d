//! Reads a model's dimensions from GGUF metadata, and refuses what `forward` does not compute.

use super::metadata::{Metadata, required};
use crate::model::architecture::{Architecture, Keys, check_length};
use crate::model::checkpoint::stored::Directory;
use crate::model::error::Defect;
use crate::model::rope::{LongRope, Rope, Scaling, Yarn};
use crate::model::shape::{self, LayerShape, Multipliers, Shape, Softcaps};

/// Keys that are accepted only with the value that has no effect.
const NEUTRAL: [(&str, f64); 5] = [
    ("expert_count", 0.0),
    ("attention.sliding_window", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
];

/// Keys that describe each layer, which only the families read that name them.
const OF_LAYERS: [&str; 2] = [
    "attention.sliding_window_pattern",
    "attention.recurrent_layers",
];

/// The keys of a file's architecture.
struct Own<'a> {
    metadata: &'a Metadata,
    directory: &'a Directory,
    architecture: &'static Architecture,
    /// The layers that arrays describe, including those that predict further tokens.
    blocks: usize,
}

impl Own<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture.gguf)
    }

    /// Returns a key's full name, after the check that an array has an entry for each layer.
    fn checked(&self, suffix: &str) -> Result<String, Defect> {
        let key = self.key(suffix);
        let length = self.metadata.length(&key).unwrap_or(self.blocks);
        check_length(&key, length, self.blocks).map(|()| key)
    }

    /// Returns a size for each layer: one that all share, or those of an array.
    fn sizes_of(&self, suffix: &str) -> Result<Option<Vec<usize>>, Defect> {
        self.metadata.sizes(&self.checked(suffix)?, self.blocks)
    }

    fn number(&self, suffix: &str) -> Result<Option<f32>, Defect> {
        #[allow(clippy::cast_possible_truncation)] // it was written as f32
        self.float(suffix)
            .map(|value| value.map(|value| value as f32))
    }
}

impl Keys for Own<'_> {
    fn named(&self, key: &str) -> String {
        self.key(key)
    }

    fn has(&self, key: &str) -> bool {
        self.metadata.has(&self.key(key))
    }

    fn is_list(&self, key: &str) -> bool {
        self.metadata.length(&self.key(key)).is_some()
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        self.metadata.size(&self.checked(key)?)
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        self.metadata.float(&self.key(key))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Defect> {
        self.metadata.boolean(&self.key(key))
    }

    fn flags(&self, key: &str, count: usize) -> Result<Option<Vec<bool>>, Defect> {
        let flags = self.metadata.flags(&self.checked(key)?)?;
        Ok(flags.map(|flags| flags.into_iter().take(count).collect()))
    }

    fn has_tensor(&self, name: &str) -> bool {
        self.directory.contains_key(name)
    }

    fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Defect> {
        self.metadata.sizes(&self.key(key), 1)
    }

    fn word(&self, key: &str) -> Result<Option<String>, Defect> {
        self.metadata.string(&self.key(key))
    }

    // No supported family has words here.
    fn words(&self, _: &str) -> Result<Option<Vec<String>>, Defect> {
        Ok(None)
    }
}

/// Reads the shape. Its rope frequencies are not yet divided by `rope_freqs.weight`.
pub(super) fn read(
    (metadata, directory): (&Metadata, &Directory),
    architecture: &'static Architecture,
    vocabulary: usize,
    long: Option<[Vec<f64>; 2]>,
) -> Result<Shape, Defect> {
    let blocks = format!("{}.block_count", architecture.gguf);
    let own = Own {
        metadata,
        directory,
        architecture,
        blocks: shape::layers(required(metadata.size(&blocks), &blocks)?)?,
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
            && !architecture.own_keys.contains(&suffix)
        {
            let allowed = format!("only the head's dimension, {head_dim}, is computed");
            return Err(Defect::bad_value(own.key(suffix), value, allowed));
        }
    }
    let epsilon = "attention.layer_norm_rms_epsilon";
    let rope = own.rope(long)?;
    let scaled = if own.has("rope.scaling.original_context_length") {
        rope.scaled_context()
    } else {
        0
    };
    // The last layers may predict further tokens, for guesses.
    let guessing = "nextn_predict_layers";
    let guessing = if architecture.own_keys.contains(&guessing) {
        0
    } else {
        own.size(guessing)?.unwrap_or(0)
    };
    let count = shape::layers(own.blocks.saturating_sub(guessing))?;
    let kv_heads = own.sizes_of("attention.head_count_kv")?;
    let kv_heads = kv_heads.unwrap_or_else(|| vec![heads; count]);
    let length = "feed_forward_length";
    let widths = required(own.sizes_of(length), &own.key(length))?;
    let layers = kv_heads.into_iter().zip(widths).take(count);
    let layers =
        layers.map(|(kv_heads, width)| LayerShape::usual([heads, kv_heads, head_dim], width));
    let shape = Shape {
        hidden,
        layers: layers.collect(),
        vocabulary,
        context: own.needed("context_length")?.max(scaled),
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
    shape.checked(&rope, |shape| (architecture.from_gguf)(&own, shape))
}

impl Own<'_> {
    fn refuse_uncomputed(&self) -> Result<(), Defect> {
        let own_keys = self.architecture.own_keys;
        let others = NEUTRAL.into_iter();
        for (suffix, neutral) in others.filter(|(suffix, _)| !own_keys.contains(suffix)) {
            #[allow(clippy::float_cmp)] // these values are exact
            if let Some(value) = self.float(suffix)?
                && value != neutral
            {
                let allowed = format!("only {neutral} is computed");
                return Err(Defect::bad_value(self.key(suffix), value, allowed));
            }
        }
        for suffix in OF_LAYERS {
            if !own_keys.contains(&suffix) {
                let allowed = "it is not known what this changes: take another conversion";
                self.metadata.refuse(&self.key(suffix), allowed)?;
            }
        }
        let causal = "attention.causal";
        if self.flag(causal)? == Some(false) {
            let allowed =
                "a model that sees what follows, such as one for embeddings, is not supported";
            return Err(Defect::bad_value(self.key(causal), false, allowed));
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
            // The key holds the divisor.
            logits: 1.0 / logits,
        })
    }

    /// Reads the rotation; `long` has the divisors of frequencies for a short and a long cache.
    fn rope(&self, long: Option<[Vec<f64>; 2]>) -> Result<Rope, Defect> {
        let kind = self.metadata.string(&self.key("rope.scaling.type"))?;
        let theta = self.float("rope.freq_base")?.unwrap_or(10_000.0);
        let long = long.map(|factors| self.long(factors)).transpose()?;
        let scaling = match kind.as_deref() {
            // The tensors alone show this scaling.
            _ if long.is_some() => long.map(Scaling::Long),
            // A file that does not name its scaling means linear scaling.
            None | Some("linear") => self.factor()?.map(|factor| Scaling::Linear { factor }),
            Some("none") => None,
            Some("yarn") => Some(Scaling::Yarn(self.yarn()?)),
            Some(other) => {
                return Err(Defect::bad_value(
                    self.key("rope.scaling.type"),
                    other,
                    "only \"none\", \"linear\" and \"yarn\" are computed; llama3 scaling is the tensor rope_freqs.weight",
                ));
            }
        };
        Ok(Rope {
            theta,
            dims: self.size("rope.dimension_count")?,
            scaling,
        })
    }

    /// Returns the factor of the context; 0 in the file means none. An older key is read if the newer one is missing.
    fn factor(&self) -> Result<Option<f64>, Defect> {
        let factor = match self.float("rope.scaling.factor")? {
            None => self.float("rope.scale_linear")?,
            factor => factor,
        };
        Ok(factor.filter(|factor| *factor != 0.0))
    }

    fn long(&self, [short, long]: [Vec<f64>; 2]) -> Result<LongRope, Defect> {
        Ok(LongRope {
            short,
            long,
            original_context: self.needed("rope.scaling.original_context_length")?,
            amplitude: self.float("rope.scaling.attn_factor")?.unwrap_or(1.0),
        })
    }

    fn yarn(&self) -> Result<Yarn, Defect> {
        let factor = required(self.factor(), &self.key("rope.scaling.factor"))?;
        let original = match self.size("rope.scaling.original_context_length")? {
            Some(original) => original,
            None => self.needed("context_length")?,
        };
        // With this key, scores already include a part of the growth.
        let scaled = self.float("rope.scaling.yarn_log_multiplier")?;
        let growth = match scaled.filter(|scaled| *scaled != 0.0) {
            Some(scaled) => Yarn::growth(factor, 1.0) / Yarn::growth(factor, scaled),
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
