//! The dimensions of a model and the properties of its layers, checked once for all file formats.

mod bounds;
mod check;
mod images;
mod layer;
mod state;

pub(in crate::model) use bounds::{head_dim, layers};
pub(in crate::model) use images::sections;
pub use images::{ImageShape, JoinedLayers};
pub use layer::{
    AttentionShape, DeltaNetShape, KvSource, LayerShape, Mamba2Shape, MixerShape, MlpShape,
    ShortConvShape,
};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::error::Defect;
use super::rope::Rope;
use crate::tape::{Activation, Angles, Attention, CacheLayer, KvKind, QueryScale, Rotation};

/// Dimensions in elements. A `Shape` has been checked: no dimension is zero, heads are a multiple of KV heads, heads
/// have an even number of elements, and no product overflows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The name of its family, as in `model_type` of config.json.
    pub architecture: &'static str,
    pub hidden: usize,
    pub layers: Vec<LayerShape>,
    /// The layer of the head that guesses tokens, which is no layer of the model, but has the last layer of its kind of the
    /// cache. `None` also if the head is not loaded.
    pub guess: Option<LayerShape>,
    /// Columns of the additional input of each layer (Gemma 4); 0 means that there is none.
    pub layer_input: usize,
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    pub norm_epsilon: f32,
    /// Tables of the rotation of pairs of a head's elements, with scaling. Most models have one.
    pub angles: Vec<Angles>,
    /// The first table of a cache that is longer than a number of positions (Phi).
    pub far_angles: Option<(usize, Angles)>,
    pub query_scale: Option<QueryScale>,
    pub multipliers: Multipliers,
    pub softcaps: Softcaps,
    pub activation: Activation,
    pub images: ImageShape,
    /// The tokens that stand for parts of images or sound in a prompt. A model never answers with them.
    pub placeholders: Vec<u32>,
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
            hidden: 0,
            layers: Vec::new(),
            guess: None,
            layer_input: 0,
            vocabulary: 0,
            context: 0,
            norm_epsilon: 0.0,
            angles: Vec::new(),
            far_angles: None,
            query_scale: None,
            multipliers: Multipliers::default(),
            softcaps: Softcaps::default(),
            activation: Activation::default(),
            images: ImageShape::default(),
            placeholders: Vec::new(),
        }
    }

    /// Returns the attention of each layer that has it, with the layer's number.
    pub fn attention(&self) -> impl Iterator<Item = (usize, &AttentionShape)> {
        let layers = self.layers.iter().enumerate();
        layers.filter_map(|(layer, shape)| Some((layer, shape.attention()?)))
    }

    pub(super) fn attention_mut(&mut self) -> impl Iterator<Item = (usize, &mut AttentionShape)> {
        let layers = self.layers.iter_mut().enumerate();
        layers.filter_map(|(layer, shape)| Some((layer, shape.attention_mut()?)))
    }

    /// Returns the attention of the layers that store K and V. Each is a layer of the cache.
    pub fn stored(&self) -> impl Iterator<Item = (usize, &AttentionShape)> {
        self.attention().filter(|(_, attention)| attention.stores())
    }

    /// Returns the layers of the cache: those that see all positions, and those that see a window.
    #[must_use]
    pub fn kv_kinds(&self) -> [KvKind; 2] {
        [0, 1].map(|kind| {
            let mut alike = self.stored().filter(|(_, of)| of.kind() == kind);
            let Some((_, of)) = alike.next() else {
                return KvKind::default();
            };
            let guess = self.guess.as_ref().and_then(LayerShape::attention);
            let guesses = guess.is_some_and(|guess| guess.kind() == kind);
            KvKind {
                layers: 1 + alike.count() + usize::from(guesses),
                heads: of.kv_heads,
                head_dim: of.head_dim,
                window: of.window,
            }
        })
    }

    /// Returns the layer of the cache that holds the K and V of a layer with attention. The head's layer has the number
    /// after the model's last one.
    #[must_use]
    pub fn cache_layer(&self, layer: usize, attention: &AttentionShape) -> CacheLayer {
        let of = match attention.kv {
            KvSource::Layer(of) => of,
            KvSource::Projected | KvSource::Keys => layer,
        };
        let kind = attention.kind();
        let before = self.stored().take_while(|(stored, _)| *stored < of);
        CacheLayer {
            kind,
            index: before.filter(|(_, of)| of.kind() == kind).count(),
        }
    }

    /// Returns a hash of the angles, which the values of a cache depend on, and of whether a head has a layer of it.
    #[must_use]
    pub fn angles_hash(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        if self.guess.is_some() {
            "head".hash(&mut hash);
        }
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

    /// Returns the rotation of q and k.
    #[must_use]
    pub fn rotation(&self, AttentionShape { angles, .. }: &AttentionShape) -> Rotation {
        Rotation {
            table: angles.unwrap_or(0),
            dims: angles.map_or(0, |table| 2 * self.angles[table].frequencies.len()),
            query_scale: self.query_scale,
            sections: None,
        }
    }

    /// Returns how the scores of attention become weights.
    #[must_use]
    pub fn scores(&self, attention: &AttentionShape) -> Attention {
        let plain = Attention::plain(attention.head_dim);
        Attention {
            scale: self.multipliers.scores.unwrap_or(plain.scale),
            window: attention.window,
            softcap: self.softcaps.scores,
            ..plain
        }
    }

    /// Returns the checked shape after the changes of `own`. Layers with the first table of angles rotate by `rope`;
    /// `own` adds further tables.
    pub(super) fn checked(
        mut self,
        rope: &Rope,
        own: impl FnOnce(&mut Self) -> Result<(), Defect>,
    ) -> Result<Self, Defect> {
        self.check_sizes(0)?;
        own(&mut self)?;
        self.check_sizes(1)?;
        let first = self.attention().find(|(_, of)| of.angles == Some(0));
        let first = first.or_else(|| self.attention().next());
        if let Some((_, AttentionShape { head_dim, .. })) = first {
            let head_dim = *head_dim;
            rope.check(head_dim)?;
            self.far_angles = rope.far_angles(head_dim);
            self.angles.insert(0, rope.angles(head_dim));
        }
        // A window as large as the context has no effect.
        let context = self.context;
        for (_, attention) in self.attention_mut() {
            attention.window = attention.window.filter(|window| window.get() < context);
        }
        self.check_scales()?;
        self.check_rope()?;
        self.check_tables()?;
        self.check_cache()?;
        Ok(self)
    }
}
