//! The differences between layers in attention: how q and k are normed and rotate, and which scores count.

use std::num::NonZeroUsize;

use super::image::Sections;
use super::operands::WeightId;

/// How scores become weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The factor of the products of q and k.
    pub scale: f32,
    /// The number of positions that a row sees, including its own; `None` is all.
    pub window: Option<NonZeroUsize>,
    /// Scores become `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// (query heads): an additional logit in the softmax of each head, without a value.
    pub sinks: Option<WeightId>,
    /// Whether the rows of an image see all of its rows. Only tapes of prompts with images have it.
    pub joins_images: bool,
}

impl Attention {
    /// All positions count, and the scale is `1 / sqrt(head_dim)` (Vaswani et al. 2017).
    #[must_use]
    pub fn plain(head_dim: usize) -> Self {
        #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
        let scale = 1.0 / (head_dim as f32).sqrt();
        Self {
            scale,
            window: None,
            softcap: None,
            sinks: None,
            joins_images: false,
        }
    }

    /// The first position that a row at `position` sees.
    #[must_use]
    pub fn seen_from(&self, position: usize) -> usize {
        let seen = |window: NonZeroUsize| (position + 1).saturating_sub(window.get());
        self.window.map_or(0, seen)
    }
}

/// The norms of heads before they rotate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadNorms {
    /// (head_dim)
    pub q: Option<WeightId>,
    /// (head_dim)
    pub k: Option<WeightId>,
    /// Whether each head of v is normed, by weights of 1 (Gemma 4).
    pub v: bool,
}

/// How q and k rotate by their position (`RoPE`, Su et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// The index of the model's table of angles.
    pub table: usize,
    /// The number of elements of a head that rotate, from the first: twice the number of angles. Element `i` pairs with
    /// `i + dims / 2`; 0 rotates none.
    pub dims: usize,
    pub query_scale: Option<QueryScale>,
    /// The parts of a position, if pairs rotate by several. They are equal in text, so that only tapes of prompts with
    /// images have them.
    pub sections: Option<Sections>,
}

impl Rotation {
    /// Rotates whole heads by the only table.
    #[must_use]
    pub fn whole(head_dim: usize) -> Self {
        Self {
            table: 0,
            dims: head_dim,
            query_scale: None,
            sections: None,
        }
    }
}

/// q is multiplied by `1 + beta ln(1 + floor(position / original))` after its rotation (Llama 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryScale {
    pub beta: f32,
    /// Positions that the model was first trained for.
    pub original: NonZeroUsize,
}

impl QueryScale {
    /// The factor of q at a position.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // float32 is the reference
    pub fn at(&self, position: usize) -> f32 {
        1.0 + self.beta * ((1 + position / self.original) as f32).ln()
    }
}

/// A table of angles.
#[derive(Clone, Debug, PartialEq)]
pub struct Angles {
    /// (pairs): radians per position.
    pub frequencies: Vec<f32>,
    /// The factor of sines and cosines.
    pub amplitude: f32,
}

impl Angles {
    /// Sine and cosine of each pair. Both executors use these numbers.
    pub fn at(&self, position: usize) -> impl Iterator<Item = (f32, f32)> {
        self.by([position; 3], None)
    }

    /// Sine and cosine of each pair at a position of three parts: time, row and column. Without `sections` all pairs
    /// rotate by time.
    pub fn by(
        &self,
        position: [usize; 3],
        sections: Option<Sections>,
    ) -> impl Iterator<Item = (f32, f32)> {
        #[allow(clippy::cast_precision_loss)] // float32 is the reference
        let position = position.map(|part| part as f32);
        let pairs = self.frequencies.iter().enumerate();
        pairs.map(move |(pair, frequency)| {
            let part = sections.map_or(0, |sections| sections.part(pair));
            let (sin, cos) = (position[part] * frequency).sin_cos();
            (sin * self.amplitude, cos * self.amplitude)
        })
    }
}
