//! The operations. Each is a fused kernel, and both executors match on them exhaustively.

use super::attention::{Attention, Rotation};
use super::kv_info::CacheLayer;
use super::operands::{Buffer, WeightId};

/// `y = weight x + bias`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    pub weight: WeightId,
    pub bias: Option<WeightId>,
}

/// The activation function of an MLP's gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `x sigmoid(x)`
    #[default]
    Silu,
    /// The tanh approximation of GELU (Hendrycks and Gimpel 2016): `x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))`
    GeluTanh,
}

/// One operation. Shapes are (rows, columns); a weight is (outputs, inputs).
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `x = scale table[token]` for each row.
    Embed {
        table: WeightId,
        scale: f32,
        x: Buffer,
    },
    /// `q, k, v = W rmsnorm(x) + b`. The normed row is rounded to the tape's activation type. The RMS norm is `x /
    /// sqrt(mean(x^2) + epsilon) * norm` (Zhang and Sennrich 2019).
    Qkv {
        x: Buffer,
        norm: WeightId,
        epsilon: f32,
        projections: [Projection; 3],
        outputs: [Buffer; 3],
    },
    /// Rotates each head of q and k by its row's position, and stores k and v in the cache at that position. Some
    /// models norm each head of q and k first.
    RopeStore {
        layer: CacheLayer,
        inputs: [Buffer; 3],
        /// (head_dim) of q and of k
        norms: Option<[WeightId; 2]>,
        epsilon: f32,
        rotation: Rotation,
        rotated: Buffer,
    },
    /// `out = softmax(scale q K^T) V` over the positions that the row sees, up to its own. Groups of query heads share
    /// a KV head.
    Attend {
        layer: CacheLayer,
        q: Buffer,
        attention: Attention,
        out: Buffer,
    },
    /// `x += weight input`
    Project {
        input: Buffer,
        weight: WeightId,
        x: Buffer,
    },
    /// `out = weight input`
    Product {
        input: Buffer,
        weight: WeightId,
        out: Buffer,
    },
    /// `x += rmsnorm(y)`, where nothing is rounded.
    AddNormed {
        y: Buffer,
        norm: WeightId,
        epsilon: f32,
        x: Buffer,
    },
    /// `out = activation(gate y) * (up y)` with `y = rmsnorm(x)`, rounded as in `Qkv`.
    GateUp {
        x: Buffer,
        norm: WeightId,
        epsilon: f32,
        gate: WeightId,
        up: WeightId,
        activation: Activation,
        out: Buffer,
    },
    /// `logits = weight rmsnorm(x)` of the last row of x, or of all rows if `logits` has as many.
    Head {
        x: Buffer,
        norm: WeightId,
        epsilon: f32,
        weight: WeightId,
        logits: Buffer,
    },
    /// `logits = cap tanh(logits / cap)`
    Softcap { logits: Buffer, cap: f32 },
    /// Chooses a token from each row of logits by its conversation's sampler, and advances the slot's state.
    Sample { logits: Buffer },
}

impl Op {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::Qkv { .. } => "qkv",
            Self::RopeStore { .. } => "rope_store",
            Self::Attend { .. } => "attend",
            Self::Project { .. } => "project",
            Self::Product { .. } => "product",
            Self::AddNormed { .. } => "add_normed",
            Self::GateUp { .. } => "gate_up",
            Self::Head { .. } => "head",
            Self::Softcap { .. } => "softcap",
            Self::Sample { .. } => "sample",
        }
    }

    /// The buffers that the operation reads, and those that it writes. An operation that `is_in_place`
    /// writes a buffer that it also reads.
    #[must_use]
    pub fn buffers(&self) -> (Vec<Buffer>, Vec<Buffer>) {
        match *self {
            Self::Embed { x, .. } => (vec![], vec![x]),
            Self::Qkv { x, outputs, .. } => (vec![x], outputs.to_vec()),
            Self::RopeStore {
                inputs, rotated, ..
            } => (inputs.to_vec(), vec![rotated]),
            Self::Attend { q, out, .. } => (vec![q], vec![out]),
            Self::Project { input, x, .. } => (vec![input, x], vec![x]),
            Self::Product { input, out, .. } => (vec![input], vec![out]),
            Self::AddNormed { y, x, .. } => (vec![y, x], vec![x]),
            Self::GateUp { x, out, .. } => (vec![x], vec![out]),
            Self::Head { x, logits, .. } => (vec![x], vec![logits]),
            Self::Softcap { logits, .. } => (vec![logits], vec![logits]),
            Self::Sample { logits } => (vec![logits], vec![]),
        }
    }

    /// Whether the operation changes a buffer that it reads.
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        self.adds() || matches!(self, Self::Softcap { .. })
    }

    /// Whether the operation adds to the residual stream.
    #[must_use]
    pub const fn adds(&self) -> bool {
        matches!(self, Self::Project { .. } | Self::AddNormed { .. })
    }

    /// The weights that the operation reads.
    #[must_use]
    pub fn weights(&self) -> Vec<WeightId> {
        match self {
            Self::Embed { table, .. } => vec![*table],
            Self::Qkv {
                norm, projections, ..
            } => {
                let linear = projections
                    .iter()
                    .flat_map(|p| [Some(p.weight), p.bias])
                    .flatten();
                std::iter::once(*norm).chain(linear).collect()
            }
            Self::RopeStore { norms, .. } => norms.map_or(vec![], |norms| norms.to_vec()),
            Self::Attend { attention, .. } => attention.sinks.into_iter().collect(),
            Self::Softcap { .. } | Self::Sample { .. } => vec![],
            Self::Project { weight, .. } | Self::Product { weight, .. } => vec![*weight],
            Self::AddNormed { norm, .. } => vec![*norm],
            Self::GateUp { norm, gate, up, .. } => vec![*norm, *gate, *up],
            Self::Head { norm, weight, .. } => vec![*norm, *weight],
        }
    }
}
