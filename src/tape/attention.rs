//! What differs from layer to layer in how queries meet keys: how both turn by their position, and which scores count.

use std::num::NonZeroUsize;

use super::WeightId;

/// How scores become weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// What the products of q and k are multiplied by.
    pub scale: f32,
    /// How many positions a row sees, itself among them; `None` is all.
    pub window: Option<NonZeroUsize>,
    /// Scores become `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// (query heads): a logit of each that takes part in the softmax and has no value.
    pub sinks: Option<WeightId>,
}

impl Attention {
    /// All positions count, with `1 / sqrt(head_dim)` (Vaswani et al. 2017).
    #[must_use]
    pub fn plain(head_dim: usize) -> Self {
        #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
        let scale = 1.0 / (head_dim as f32).sqrt();
        Self {
            scale,
            window: None,
            softcap: None,
            sinks: None,
        }
    }

    /// The first position that a row at `position` sees.
    #[must_use]
    pub fn seen_from(&self, position: usize) -> usize {
        let seen = |window: NonZeroUsize| (position + 1).saturating_sub(window.get());
        self.window.map_or(0, seen)
    }
}

/// How q and k turn by their position (`RoPE`, Su et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// Which of the model's tables of angles.
    pub table: usize,
    /// Elements of a head that turn, its first ones: twice as many as its table has angles, and element `i` pairs with
    /// `i + dims / 2`. 0: none do.
    pub dims: usize,
    pub query_scale: Option<QueryScale>,
}

impl Rotation {
    /// Whole heads, by the only table.
    #[must_use]
    pub fn whole(head_dim: usize) -> Self {
        Self {
            table: 0,
            dims: head_dim,
            query_scale: None,
        }
    }
}

/// q is multiplied by `1 + beta ln(1 + floor(position / original))` after it has turned (Llama 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryScale {
    pub beta: f32,
    /// Positions that the model was first trained for.
    pub original: NonZeroUsize,
}

impl QueryScale {
    /// What q is multiplied by.
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
    /// What sines and cosines are multiplied by.
    pub amplitude: f32,
}

impl Angles {
    /// Sine and cosine of each pair, as both executors have them.
    pub fn at(&self, position: usize) -> impl Iterator<Item = (f32, f32)> {
        #[allow(clippy::cast_precision_loss)] // float32 is the reference
        let position = position as f32;
        self.frequencies.iter().map(move |frequency| {
            let (sin, cos) = (position * frequency).sin_cos();
            (sin * self.amplitude, cos * self.amplitude)
        })
    }
}
