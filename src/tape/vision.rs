//! The operations of vision towers and their projectors. A row is a patch of an image, or a token that patches became.
//!
//! The operations see one image: there is no cache, and no row has a position in a conversation. The host computes the
//! geometry of an image, and writes it into the first buffers of a tape (`Input::Patches`). The residual stream is f32,
//! as in a language model.

use super::activation::Activation;
use super::attention::HeadNorms;
use super::operands::{Buffer, WeightId};

/// The norm of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    pub kind: NormKind,
    /// (columns); `None` means weights of 1.
    pub weight: Option<WeightId>,
    /// (columns)
    pub bias: Option<WeightId>,
    pub epsilon: f32,
}

/// The divisor of a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `(x - mean(x)) / sqrt(variance(x) + epsilon)` (Ba et al. 2016)
    Layer,
    /// `x / sqrt(mean(x^2) + epsilon)` (Zhang and Sennrich 2019)
    RootMeanSquare,
}

/// The ranges that a linear layer's inputs and outputs are clamped to, each `[least, greatest]` (Gemma 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    pub input: [f32; 2],
    pub output: [f32; 2],
}

/// The order of the patches of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchOrder {
    /// Row by row; a row has `columns` patches.
    Raster { columns: usize },
    /// The patches that become one token are consecutive, row by row among themselves.
    Blocks,
}

/// The patches that become one token: `side` rows of `side` patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Square {
    pub side: usize,
    pub order: PatchOrder,
}

/// An operation of a vision tower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vision {
    /// `out = norm(x)`; x is f32, and out has the type of its buffer.
    Norm { x: Buffer, norm: Norm, out: Buffer },
    /// `y = clamp(weight clamp(input) + bias)`, then `out = activation(y)` from column `first` on, or with `adds`
    /// `out += y`. The clamped input is rounded to the tape's activation type.
    Linear {
        /// f32, or the type of activations
        input: Buffer,
        weight: WeightId,
        bias: Option<WeightId>,
        clip: Option<Clip>,
        activation: Option<Activation>,
        adds: bool,
        /// With `adds` it is f32 and as wide as the weight has rows.
        out: Buffer,
        first: usize,
    },
    /// Norms and rotates the heads of q and k, and norms those of v. A row of qkv is `[q | k | v]`.
    ///
    /// A head consists of `parts` equal parts. Element `i` of a part pairs with the element half a part later. The
    /// pairs of a head, in order, have a cosine and a sine each in the row's turns (`RoPE` in two dimensions).
    Rotate {
        /// f32 (rows, 3 * heads * head_dim)
        qkv: Buffer,
        heads: usize,
        norms: HeadNorms,
        epsilon: f32,
        parts: usize,
        /// f32 (rows, head_dim): `[cos, sin]` of each pair
        turns: Buffer,
        /// (rows, 3 * heads * head_dim), in the tape's activation type
        out: Buffer,
    },
    /// `out = softmax(scale q K^T) V` over all rows. A row of qkv is `[q | k | v]`.
    Attend {
        /// (rows, 3 * heads * head_dim), in the tape's activation type
        qkv: Buffer,
        heads: usize,
        scale: f32,
        /// (rows, heads * head_dim), in the tape's activation type
        out: Buffer,
    },
    /// Concatenates the patches of each square, row by row: a token has `side^2` times the columns of a patch.
    Merge {
        x: Buffer,
        square: Square,
        out: Buffer,
    },
    /// `out = scale mean(patches)` of each square, and with `standard` `(out - bias) * factor`.
    Pool {
        /// f32
        x: Buffer,
        square: Square,
        scale: f32,
        /// (columns): the bias, and the factor
        standard: Option<[WeightId; 2]>,
        /// f32
        out: Buffer,
    },
}

impl Vision {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Norm { .. } => "norm",
            Self::Linear { .. } => "linear",
            Self::Rotate { .. } => "rotate",
            Self::Attend { .. } => "attend_all",
            Self::Merge { .. } => "merge",
            Self::Pool { .. } => "pool",
        }
    }

    /// Whether the operation adds to the residual stream.
    #[must_use]
    pub const fn adds(&self) -> bool {
        matches!(self, Self::Linear { adds: true, .. })
    }

    /// The buffers that the operation reads, and those that it writes.
    #[must_use]
    pub fn buffers(&self) -> (Vec<Buffer>, Vec<Buffer>) {
        match *self {
            Self::Norm { x, out, .. } | Self::Merge { x, out, .. } | Self::Pool { x, out, .. } => {
                (vec![x], vec![out])
            }
            Self::Linear {
                input,
                out,
                adds: true,
                ..
            } => (vec![input, out], vec![out]),
            Self::Linear { input, out, .. } => (vec![input], vec![out]),
            Self::Rotate {
                qkv, turns, out, ..
            } => (vec![qkv, turns], vec![out]),
            Self::Attend { qkv, out, .. } => (vec![qkv], vec![out]),
        }
    }

    /// The weights that the operation reads.
    #[must_use]
    pub fn weights(&self) -> Vec<WeightId> {
        match *self {
            Self::Norm { norm, .. } => norm.weight.into_iter().chain(norm.bias).collect(),
            Self::Linear { weight, bias, .. } => std::iter::once(weight).chain(bias).collect(),
            Self::Rotate { norms, .. } => norms.q.into_iter().chain(norms.k).collect(),
            Self::Attend { .. } | Self::Merge { .. } => vec![],
            Self::Pool { standard, .. } => standard.into_iter().flatten().collect(),
        }
    }
}

impl Square {
    /// The patches of a token.
    #[must_use]
    pub const fn patches(&self) -> usize {
        self.side * self.side
    }

    /// The row of patch `(down, across)` of a token's square.
    #[must_use]
    pub const fn row(&self, token: usize, (down, across): (usize, usize)) -> usize {
        let side = self.side;
        match self.order {
            PatchOrder::Blocks => token * side * side + down * side + across,
            PatchOrder::Raster { columns } => {
                let wide = columns / side;
                (token / wide * side + down) * columns + token % wide * side + across
            }
        }
    }
}
