//! The dimensions and properties of a layer.

use std::num::NonZeroUsize;

use crate::tape::HeadOrder;

/// One layer: what mixes positions, and what transforms each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    pub mixer: Option<MixerShape>,
    pub mlp: Option<MlpShape>,
}

/// The part of a layer in which a position reads earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixerShape {
    Attention(AttentionShape),
    DeltaNet(DeltaNetShape),
    Mamba2(Mamba2Shape),
    ShortConv(ShortConvShape),
}

/// Attention over the positions of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// The table of angles; `None` means no rotation.
    pub angles: Option<usize>,
    /// The number of positions that a row sees, including its own; `None` means all.
    pub window: Option<NonZeroUsize>,
    pub kv: KvSource,
    /// Whether each head of V is normed (Gemma 4).
    pub norms_values: bool,
    /// Whether a gate multiplies the result (Qwen3.5).
    pub gated: bool,
}

/// The source of the K and V of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvSource {
    /// Two projections.
    Projected,
    /// One projection: V is K before its norm and rotation (Gemma 4).
    Keys,
    /// The cache of an earlier layer (Gemma 4). The layer stores nothing.
    Layer(usize),
}

/// A gated `DeltaNet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNetShape {
    pub key_heads: usize,
    pub value_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// Taps of the convolution.
    pub kernel: usize,
    pub order: HeadOrder,
}

/// Mamba-2. Groups of heads share B and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mamba2Shape {
    pub heads: usize,
    pub head_dim: usize,
    pub groups: usize,
    /// Elements of the state for each element of a head.
    pub state: usize,
    /// Taps of the convolution.
    pub kernel: usize,
}

/// A short gated convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortConvShape {
    /// Taps of the convolution.
    pub kernel: usize,
}

/// A multilayer perceptron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlpShape {
    pub width: usize,
    /// Whether the activation of a second product multiplies the first.
    pub gated: bool,
}

impl LayerShape {
    /// Returns a layer of attention to all positions, with the first table of angles, and a gated MLP.
    pub(in crate::model) const fn usual(
        [heads, kv_heads, head_dim]: [usize; 3],
        width: usize,
    ) -> Self {
        Self {
            mixer: Some(MixerShape::Attention(AttentionShape {
                heads,
                kv_heads,
                head_dim,
                angles: Some(0),
                window: None,
                kv: KvSource::Projected,
                norms_values: false,
                gated: false,
            })),
            mlp: Some(MlpShape { width, gated: true }),
        }
    }

    /// Returns the attention of the layer, if it has one.
    #[must_use]
    pub const fn attention(&self) -> Option<&AttentionShape> {
        match &self.mixer {
            Some(MixerShape::Attention(attention)) => Some(attention),
            _ => None,
        }
    }

    pub(in crate::model) const fn attention_mut(&mut self) -> Option<&mut AttentionShape> {
        match &mut self.mixer {
            Some(MixerShape::Attention(attention)) => Some(attention),
            _ => None,
        }
    }
}

impl AttentionShape {
    /// The number of columns of Q.
    #[must_use]
    pub const fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The number of columns of K, and of V.
    #[must_use]
    pub const fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The kind of its layer of the cache: 1 with a window, 0 without one.
    #[must_use]
    pub const fn kind(&self) -> usize {
        self.window.is_some() as usize
    }

    /// Whether the layer stores K and V in the cache.
    #[must_use]
    pub const fn stores(&self) -> bool {
        !matches!(self.kv, KvSource::Layer(_))
    }
}

impl DeltaNetShape {
    /// The channels of the convolution: q and k of all key heads, then v of all value heads.
    #[must_use]
    pub const fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_width()
    }

    /// The number of columns of the result.
    #[must_use]
    pub const fn value_width(&self) -> usize {
        self.value_heads * self.value_dim
    }
}

impl Mamba2Shape {
    /// The number of columns of the result.
    #[must_use]
    pub const fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The channels of the convolution: x of all heads, then B and C of all groups.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.inner() + 2 * self.groups * self.state
    }
}
