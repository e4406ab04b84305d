//! The forward pass: writes the tape of one pass of `rows` rows.

use std::sync::Arc;

use super::shape::Shape;
use super::weights::Weights;
use crate::quant::DType;
use crate::tape::{
    Buffer, BufferInfo, Ending, Input, KvInfo, Op, Projection, Tape, WeightId, WeightInfo,
};

/// The inputs that all tapes of a model share.
#[derive(Clone, Debug)]
pub struct Forward {
    pub shape: Shape,
    pub weights: Weights<WeightId>,
    pub infos: Arc<[WeightInfo]>,
    /// The type of activations between the residual stream and the matrix multiplications.
    pub activation: DType,
    pub kv: KvInfo,
}

impl Forward {
    /// Writes the tape of a step or of a prompt with `rows` rows. Buffers have the same order in every tape, so that
    /// tapes of fewer rows run in the same buffers.
    #[must_use]
    pub fn tape(&self, rows: usize, input: Input, ending: Ending) -> Tape {
        let (buffers, [x, q, k, v, rotated, attended, mlp, logits]) =
            self.buffers(rows, input, ending);
        let epsilon = self.shape.norm_epsilon;
        let mut ops = vec![Op::Embed {
            table: self.weights.embedding,
            x,
        }];
        for (layer, w) in self.weights.layers.iter().enumerate() {
            let projections = [&w.q, &w.k, &w.v].map(|p| Projection {
                weight: p.weight,
                bias: p.bias,
            });
            ops.extend([
                Op::Qkv {
                    x,
                    norm: w.attention_norm,
                    epsilon,
                    projections,
                    outputs: [q, k, v],
                },
                Op::RopeStore {
                    layer,
                    inputs: [q, k, v],
                    norms: w.q_norm.zip(w.k_norm).map(Into::into),
                    epsilon,
                    rotation: self.shape.rotation(layer),
                    rotated,
                },
                Op::Attend {
                    layer,
                    q: rotated,
                    attention: self.shape.attention_of(layer),
                    out: attended,
                },
                Op::Project {
                    input: attended,
                    weight: w.output,
                    x,
                },
                Op::GateUp {
                    x,
                    norm: w.mlp_norm,
                    epsilon,
                    gate: w.gate,
                    up: w.up,
                    out: mlp,
                },
                Op::Project {
                    input: mlp,
                    weight: w.down,
                    x,
                },
            ]);
        }
        if ending != Ending::Kv {
            let weight = self.weights.head.unwrap_or(self.weights.embedding);
            ops.push(Op::Head {
                x,
                norm: self.weights.output_norm,
                epsilon,
                weight,
                logits,
            });
        }
        if ending == Ending::Token {
            ops.push(Op::Sample { logits });
        }
        Tape {
            rows,
            input,
            ending,
            activation: self.activation,
            kv: self.kv,
            buffers,
            weights: self.infos.clone(),
            ops,
        }
    }

    /// Returns the buffers of a tape, and their names in `tape`.
    fn buffers(&self, rows: usize, input: Input, ending: Ending) -> (Vec<BufferInfo>, [Buffer; 8]) {
        let (shape, activation) = (&self.shape, self.activation);
        let all = ending == Ending::Logits || input == Input::Step;
        let scored = if all { rows } else { 1 };
        let buffer = |name, rows, columns, dtype| BufferInfo {
            name,
            rows,
            columns,
            dtype,
        };
        let buffers = vec![
            buffer("x", rows, shape.hidden, DType::F32),
            buffer("q", rows, shape.query_width(), DType::F32),
            buffer("k", rows, shape.kv_width(), DType::F32),
            buffer("v", rows, shape.kv_width(), DType::F32),
            buffer("rotated", rows, shape.query_width(), activation),
            buffer("attended", rows, shape.query_width(), activation),
            buffer("mlp", rows, shape.intermediate, activation),
            buffer("logits", scored, shape.vocabulary, DType::F32),
        ];
        (buffers, std::array::from_fn(Buffer))
    }
}
