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
        let (buffers, named) = self.buffers(rows, input, ending);
        let [x, q, k, v, rotated, attended, mlp, logits, result] = named;
        let shape = &self.shape;
        // The residual stream is divided by the multiplier of what is added to it. The norms remove any common factor,
        // if their epsilon has it, too.
        let residual = shape.multipliers.residual;
        let (head_epsilon, epsilon) = (
            shape.norm_epsilon,
            shape.norm_epsilon / (residual * residual),
        );
        let mut ops = vec![Op::Embed {
            table: self.weights.embedding,
            scale: shape.multipliers.embedding / residual,
            x,
        }];
        let add = |ops: &mut Vec<Op>, input, weight, after: Option<WeightId>| match after {
            None => ops.push(Op::Project { input, weight, x }),
            Some(norm) => ops.extend([
                Op::Product {
                    input,
                    weight,
                    out: result,
                },
                Op::AddNormed {
                    y: result,
                    norm,
                    epsilon: head_epsilon,
                    x,
                },
            ]),
        };
        for (layer, w) in self.weights.layers.iter().enumerate() {
            let cache_layer = shape.cache_layer(layer);
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
                    layer: cache_layer,
                    inputs: [q, k, v],
                    norms: w.q_norm.zip(w.k_norm).map(Into::into),
                    epsilon: head_epsilon,
                    rotation: shape.rotation(layer),
                    rotated,
                },
                Op::Attend {
                    layer: cache_layer,
                    q: rotated,
                    attention: shape.attention_of(layer),
                    out: attended,
                },
            ]);
            add(&mut ops, attended, w.output, w.attention_after);
            ops.push(Op::GateUp {
                x,
                norm: w.mlp_norm,
                epsilon,
                gate: w.gate,
                up: w.up,
                activation: shape.activation,
                out: mlp,
            });
            add(&mut ops, mlp, w.down, w.mlp_after);
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
            ops.extend(shape.softcaps.logits.map(|cap| Op::Softcap { logits, cap }));
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

    /// Whether a layer norms the result of attention or the MLP before it is added.
    fn norms_results(&self) -> bool {
        let layers = &self.weights.layers;
        let mut norms = layers
            .iter()
            .flat_map(|layer| [layer.attention_after, layer.mlp_after]);
        norms.any(|norm| norm.is_some())
    }

    /// Returns the buffers of a tape, and their names in `tape`.
    fn buffers(&self, rows: usize, input: Input, ending: Ending) -> (Vec<BufferInfo>, [Buffer; 9]) {
        let (shape, activation) = (&self.shape, self.activation);
        let all = ending == Ending::Logits || input == Input::Step;
        let scored = if all { rows } else { 1 };
        let buffer = |name, rows, columns, dtype| BufferInfo {
            name,
            rows,
            columns,
            dtype,
        };
        let mut buffers = vec![
            buffer("x", rows, shape.hidden, DType::F32),
            buffer("q", rows, shape.query_width(), DType::F32),
            buffer("k", rows, shape.kv_width(), DType::F32),
            buffer("v", rows, shape.kv_width(), DType::F32),
            buffer("rotated", rows, shape.query_width(), activation),
            buffer("attended", rows, shape.query_width(), activation),
            buffer("mlp", rows, shape.intermediate, activation),
            buffer("logits", scored, shape.vocabulary, DType::F32),
        ];
        if self.norms_results() {
            buffers.push(buffer("result", rows, shape.hidden, DType::F32));
        }
        (buffers, std::array::from_fn(Buffer))
    }
}
