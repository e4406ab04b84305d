//! The operations. Each is a fused kernel, and both executors match on them exhaustively.

use super::activation::Activation;
use super::attention::{Attention, HeadNorms, Rotation};
use super::hidden::Hidden;
use super::image::ImageRows;
use super::kv_info::CacheLayer;
use super::operands::{Buffer, WeightId};
use super::recurrent::Recurrent;
use super::vision::Vision;

/// `out = weight x + bias`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    pub weight: WeightId,
    pub bias: Option<WeightId>,
    pub out: Buffer,
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
    /// `out = W rmsnorm(x) + b` for each projection: q, k and v, the inputs of another mixer, or an MLP without a gate.
    /// The normed row is rounded to the tape's activation type. The RMS norm is `x / sqrt(mean(x^2) + epsilon) * norm` (Zhang and Sennrich 2019).
    Qkv {
        x: Buffer,
        norm: WeightId,
        epsilon: f32,
        projections: Vec<Projection>,
    },
    /// Rotates each head of q and k by its row's position, and stores k and v in the cache at that position. Some
    /// models norm heads first. Without k and v, it only rotates q: the layer reads those that another layer stored.
    RopeStore {
        layer: CacheLayer,
        q: Buffer,
        /// k and v. They may be one buffer: then v is k before its norm and rotation.
        kv: Option<[Buffer; 2]>,
        norms: HeadNorms,
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
    /// `out = weight input`. The input may be in f32, such as the residual stream. It is then rounded to the tape's
    /// activation type first.
    Product {
        input: Buffer,
        weight: WeightId,
        out: Buffer,
    },
    /// `x = scale (x + rmsnorm(y))`, where nothing is rounded. Without `scale` the factor is 1.
    AddNormed {
        y: Buffer,
        norm: WeightId,
        epsilon: f32,
        /// (1)
        scale: Option<WeightId>,
        x: Buffer,
    },
    /// The columns of `out` from `first` on become `rmsnorm(x)`, where nothing is rounded.
    Norm {
        x: Buffer,
        norm: WeightId,
        epsilon: f32,
        first: usize,
        /// f32 (rows, columns)
        out: Buffer,
    },
    /// `inputs = (scale table[token] + rmsnorm(inputs)) / sqrt(2)`: the additional inputs of all layers (Gemma 4). The
    /// columns of each layer, as many as the norm has, are normed apart from the others.
    LayerInputs {
        table: WeightId,
        scale: f32,
        norm: WeightId,
        epsilon: f32,
        inputs: Buffer,
    },
    /// `out = activation(gate) * input` with as many columns of the input as the gate has, from `first` on; without
    /// an input, `activation(gate)`.
    Gate {
        gate: Buffer,
        input: Option<Buffer>,
        first: usize,
        activation: Activation,
        out: Buffer,
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
    /// An operation on the rows of images. Only tapes of prompts with images have it.
    Images(ImageRows),
    /// An operation of a recurrent layer.
    Recurrent(Recurrent),
    /// An operation on the hidden states that an assistant continues from.
    Hidden(Hidden),
    /// An operation of a vision tower.
    Vision(Vision),
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
            Self::Norm { .. } => "norm_columns",
            Self::LayerInputs { .. } => "layer_inputs",
            Self::Gate { .. } => "gate",
            Self::GateUp { .. } => "gate_up",
            Self::Head { .. } => "head",
            Self::Softcap { .. } => "softcap",
            Self::Images(op) => op.name(),
            Self::Recurrent(op) => op.name(),
            Self::Hidden(op) => op.name(),
            Self::Vision(op) => op.name(),
            Self::Sample { .. } => "sample",
        }
    }

    /// The buffers that the operation reads, and those that it writes. An operation that `is_in_place`
    /// writes a buffer that it also reads.
    #[must_use]
    pub fn buffers(&self) -> (Vec<Buffer>, Vec<Buffer>) {
        match *self {
            Self::Embed { x, .. } => (vec![], vec![x]),
            Self::Qkv {
                x, ref projections, ..
            } => (vec![x], projections.iter().map(|to| to.out).collect()),
            Self::RopeStore { q, kv, rotated, .. } => {
                let kv = kv.into_iter().flatten();
                (std::iter::once(q).chain(kv).collect(), vec![rotated])
            }
            Self::Attend { q, out, .. } => (vec![q], vec![out]),
            Self::Project { input, x, .. } => (vec![input, x], vec![x]),
            Self::Product { input, out, .. } => (vec![input], vec![out]),
            Self::AddNormed { y, x, .. } => (vec![y, x], vec![x]),
            Self::LayerInputs { inputs, .. } => (vec![inputs], vec![inputs]),
            Self::Gate {
                gate, input, out, ..
            } => (std::iter::once(gate).chain(input).collect(), vec![out]),
            Self::Norm { x, out, .. } | Self::GateUp { x, out, .. } => (vec![x], vec![out]),
            Self::Head { x, logits, .. } => (vec![x], vec![logits]),
            Self::Softcap { logits, .. } => (vec![logits], vec![logits]),
            Self::Images(op) => (vec![op.rows(), op.x()], vec![op.x()]),
            Self::Recurrent(op) => op.buffers(),
            Self::Hidden(op) => op.buffers(),
            Self::Vision(op) => op.buffers(),
            Self::Sample { logits } => (vec![logits], vec![]),
        }
    }

    /// Whether the operation changes a buffer that it reads.
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        self.adds()
            || matches!(
                self,
                Self::Softcap { .. } | Self::LayerInputs { .. } | Self::Images(_)
            )
    }

    /// Whether the operation adds to the residual stream.
    #[must_use]
    pub const fn adds(&self) -> bool {
        match self {
            Self::Project { .. } | Self::AddNormed { .. } => true,
            Self::Vision(op) => op.adds(),
            _ => false,
        }
    }

    /// The table of which the operation reads only the rows of the tokens.
    #[must_use]
    pub const fn gathered(&self) -> Option<WeightId> {
        match self {
            Self::Embed { table, .. } | Self::LayerInputs { table, .. } => Some(*table),
            _ => None,
        }
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
            Self::RopeStore { norms, .. } => norms.q.into_iter().chain(norms.k).collect(),
            Self::Attend { attention, .. } => attention.sinks.into_iter().collect(),
            Self::Gate { .. }
            | Self::Softcap { .. }
            | Self::Images(_)
            | Self::Hidden(_)
            | Self::Sample { .. } => vec![],
            Self::Recurrent(op) => op.weights(),
            Self::Vision(op) => op.weights(),
            Self::Project { weight, .. } | Self::Product { weight, .. } => vec![*weight],
            Self::AddNormed { norm, scale, .. } => std::iter::once(*norm).chain(*scale).collect(),
            Self::Norm { norm, .. } => vec![*norm],
            Self::LayerInputs { table, norm, .. } => vec![*table, *norm],
            Self::GateUp { norm, gate, up, .. } => vec![*norm, *gate, *up],
            Self::Head { norm, weight, .. } => vec![*norm, *weight],
        }
    }
}
