//! The dimensions of a model and the properties of its layers, checked once for all file formats.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;

use super::error::Defect;
use super::rope::Rope;
use crate::tape::{Activation, Angles, Attention, CacheLayer, KvKind, QueryScale, Rotation};

/// Dimensions in elements. A `Shape` has been checked: no field is zero, `heads` is a multiple of `kv_heads`,
/// `head_dim` is even, and no product overflows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The name of its family, as in `model_type` of config.json.
    pub architecture: &'static str,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    pub norm_epsilon: f32,
    /// Tables of the rotation of pairs of a head's elements, with scaling. Most models have one.
    pub angles: Vec<Angles>,
    /// The first table of a cache that is longer than a number of positions (Phi).
    pub far_angles: Option<(usize, Angles)>,
    /// (layers)
    pub attention: Vec<LayerAttention>,
    pub query_scale: Option<QueryScale>,
    pub multipliers: Multipliers,
    pub softcaps: Softcaps,
    pub activation: Activation,
}

/// The attention of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerAttention {
    /// The table of angles; `None` means no rotation.
    pub angles: Option<usize>,
    /// The number of positions that a row sees, including its own; `None` means all.
    pub window: Option<NonZeroUsize>,
}

/// Factors within the model (Granite, Gemma).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multipliers {
    /// The factor of rows of the embedding.
    pub embedding: f32,
    /// The factor of products of q and k; `None` means 1 / sqrt(`head_dim`).
    pub scores: Option<f32>,
    /// The factor of each addition to the residual stream.
    pub residual: f32,
    pub logits: f32,
}

/// Bounds by `cap * tanh(x / cap)` (Gemma).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Softcaps {
    pub scores: Option<f32>,
    pub logits: Option<f32>,
}

impl Default for Multipliers {
    fn default() -> Self {
        Self {
            embedding: 1.0,
            scores: None,
            residual: 1.0,
            logits: 1.0,
        }
    }
}

impl Shape {
    /// Returns a shape without dimensions and without special properties.
    pub(super) fn plain(architecture: &'static str) -> Self {
        Self {
            architecture,
            layers: 0,
            hidden: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            intermediate: 0,
            vocabulary: 0,
            context: 0,
            norm_epsilon: 0.0,
            angles: Vec::new(),
            far_angles: None,
            attention: Vec::new(),
            query_scale: None,
            multipliers: Multipliers::default(),
            softcaps: Softcaps::default(),
            activation: Activation::default(),
        }
    }

    /// The number of columns of Q: `heads * head_dim`.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The number of columns of K, and of V: `kv_heads * head_dim`.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Returns a hash of the angles, which the values of a cache depend on.
    #[must_use]
    pub fn angles_hash(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for Angles {
            frequencies,
            amplitude,
        } in &self.angles
        {
            for number in frequencies.iter().chain([amplitude]) {
                number.to_bits().hash(&mut hash);
            }
        }
        hash.finish()
    }

    /// Selects the tables of angles for a cache of `context` positions.
    pub fn rotate_within(&mut self, context: usize) {
        if let Some((_, far)) = self.far_angles.take_if(|(near, _)| context > *near) {
            self.angles[0] = far;
        }
    }

    /// Returns the layers of the cache: those that see all positions, and those that see a window.
    #[must_use]
    pub fn kv_kinds(&self) -> [KvKind; 2] {
        let window = self.attention.iter().filter_map(|layer| layer.window).max();
        [None, window].map(|window| KvKind {
            layers: self.layers_like(window.is_some(), self.layers),
            heads: self.kv_heads,
            head_dim: self.head_dim,
            window,
        })
    }

    /// Returns the layer of the cache that holds K and V of a layer.
    #[must_use]
    pub fn cache_layer(&self, layer: usize) -> CacheLayer {
        let windowed = self.attention[layer].window.is_some();
        CacheLayer {
            kind: usize::from(windowed),
            index: self.layers_like(windowed, layer),
        }
    }

    /// Counts the first `layers` layers with a window, or those without one.
    fn layers_like(&self, windowed: bool, layers: usize) -> usize {
        let first = self.attention[..layers].iter();
        first
            .filter(|layer| layer.window.is_some() == windowed)
            .count()
    }

    /// Returns the rotation of q and k in a layer.
    #[must_use]
    pub fn rotation(&self, layer: usize) -> Rotation {
        let angles = self.attention[layer].angles;
        Rotation {
            table: angles.unwrap_or(0),
            dims: angles.map_or(0, |table| 2 * self.angles[table].frequencies.len()),
            query_scale: self.query_scale,
        }
    }

    /// Returns the attention of a layer.
    #[must_use]
    pub fn attention_of(&self, layer: usize) -> Attention {
        let plain = Attention::plain(self.head_dim);
        Attention {
            scale: self.multipliers.scores.unwrap_or(plain.scale),
            window: self.attention[layer].window,
            softcap: self.softcaps.scores,
            ..plain
        }
    }

    /// Returns the checked shape, with `rope` in all layers and the changes of `own`.
    pub(super) fn checked(
        mut self,
        rope: &Rope,
        own: impl FnOnce(&mut Self) -> Result<(), Defect>,
    ) -> Result<Self, Defect> {
        self.check_sizes()?;
        rope.check(self.head_dim)?;
        self.angles = vec![rope.angles(self.head_dim)];
        self.far_angles = rope.far_angles(self.head_dim);
        let usual = LayerAttention {
            angles: Some(0),
            window: None,
        };
        self.attention = vec![usual; self.layers];
        own(&mut self)?;
        // A window as large as the context has no effect.
        let context = self.context;
        for layer in &mut self.attention {
            layer.window = layer.window.filter(|window| window.get() < context);
        }
        self.check_scales()?;
        self.check_rope()?;
        Ok(self)
    }

    fn check_sizes(&self) -> Result<(), Defect> {
        // Far above any model of these families, and low enough that no product overflows. A matrix has at least two
        // rows: one row is a vector.
        for (key, value, least, most) in [
            ("layers", self.layers, 1, 1 << 10),
            ("hidden size", self.hidden, 2, 1 << 16),
            ("attention heads", self.heads, 1, 1 << 10),
            ("key-value heads", self.kv_heads, 1, 1 << 10),
            ("head dimension", self.head_dim, 2, 1 << 10),
            ("intermediate size", self.intermediate, 2, 1 << 20),
            ("vocabulary", self.vocabulary, 2, 1 << 22),
            ("context length", self.context, 1, 1 << 24),
        ] {
            if value < least || value > most {
                let allowed = format!("it must be from {least} to {most}");
                return Err(Defect::bad_value(key, value, allowed));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("it must divide the {} attention heads", self.heads);
            return Err(Defect::bad_value("key-value heads", self.kv_heads, allowed));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(Defect::bad_value(
                "head dimension",
                self.head_dim,
                "it must be even",
            ));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            let allowed = "it must be a small positive number";
            return Err(Defect::bad_value(
                "norm epsilon",
                self.norm_epsilon,
                allowed,
            ));
        }
        Ok(())
    }

    fn check_scales(&self) -> Result<(), Defect> {
        let amplitudes = self
            .angles
            .iter()
            .map(|table| ("rope amplitude", table.amplitude));
        let Multipliers {
            embedding,
            scores,
            residual,
            logits,
        } = self.multipliers;
        let scales = [
            ("embedding multiplier", Some(embedding)),
            ("attention scale", scores),
            ("residual multiplier", Some(residual)),
            ("logits' multiplier", Some(logits)),
            ("attention softcap", self.softcaps.scores),
            ("logits' softcap", self.softcaps.logits),
            ("query scale", self.query_scale.map(|scale| scale.beta)),
        ];
        let scales = scales.into_iter();
        let scales = scales.filter_map(|(key, value)| Some((key, value?)));
        for (key, value) in scales.chain(amplitudes) {
            if !(value.is_finite() && value > 0.0) {
                let allowed = "it must be positive and finite";
                return Err(Defect::bad_value(key, value, allowed));
            }
        }
        let original = self.query_scale.map_or(1, |scale| scale.original.get());
        if original > 1 << 24 {
            let allowed = format!("it must be from 1 to {}", 1 << 24);
            return Err(Defect::bad_value(
                "original context length",
                original,
                allowed,
            ));
        }
        Ok(())
    }

    /// Checks that every angle is finite.
    pub(super) fn check_rope(&self) -> Result<(), Defect> {
        let far = self.far_angles.iter().map(|(_, far)| far);
        let mut frequencies = self
            .angles
            .iter()
            .chain(far)
            .flat_map(|table| &table.frequencies);
        match frequencies.find(|frequency| !(frequency.is_finite() && **frequency > 0.0)) {
            Some(bad) => Err(Defect::bad_value(
                "rope frequency",
                bad,
                "it must be positive and finite: check the rope base and its scaling",
            )),
            None => Ok(()),
        }
    }
}
