//! The passes of an assistant, and what the model's tapes keep for them.
//!
//! An assistant's row joins the embedding of a token with a hidden state: the model's at the position before the chosen token,
//! and in later rows the assistant's own of the row before. All rows of a slot have the position of its chosen token, and see
//! the model's keys at the positions before it: those of guesses are not known yet.

use super::buffers::Buffers;
use super::guesser::Assistant;
use super::writer::Writer;
use crate::model::shape::AttentionShape;
use crate::tape::{Buffer, Hidden, KvInfo, Op, PLACES, WeightId};

/// Adds the buffers of the passes and of the hidden states, whose width is `hidden`.
pub(super) fn add_buffers(buffers: &mut Buffers, assistant: &Assistant, hidden: usize, kv: KvInfo) {
    let shape = &assistant.shape;
    let queries = || {
        let attention = shape.attention();
        attention.map(|(_, attention)| AttentionShape::query_width(attention))
    };
    let mlps = shape.layers.iter().filter_map(|layer| layer.mlp);
    buffers.add("hidden", [hidden].into_iter());
    buffers.add("before", [hidden].into_iter());
    buffers.add("joined", [2 * hidden].into_iter());
    buffers.add_rows("ring", kv.slots * PLACES, hidden);
    buffers.add("x", [shape.hidden].into_iter());
    buffers.add("q", queries());
    buffers.add_rounded("rotated", queries());
    buffers.add_rounded("attended", queries());
    buffers.add_rounded("mlp", mlps.map(|mlp| mlp.width));
    buffers.add("result", [shape.hidden].into_iter());
    buffers.add("normed", [shape.hidden].into_iter());
}

impl Writer<'_> {
    /// Keeps the hidden states after the last layer of the model: the residual stream after the output norm.
    pub(super) fn keep_hidden(&mut self, output_norm: WeightId) {
        let hidden = self.shape.hidden;
        let input = self.buffers.of("hidden", hidden);
        self.ops.extend([
            Op::Norm {
                x: self.x,
                norm: output_norm,
                epsilon: self.epsilon,
                first: 0,
                out: input,
            },
            Op::Hidden(Hidden::Keep {
                input,
                ring: self.buffers.of("ring", hidden),
            }),
        ]);
    }

    /// Joins embeddings, which are the residual stream, with hidden states.
    pub(super) fn join_hidden(&mut self) {
        let hidden = self.shape.hidden;
        self.ops.push(Op::Hidden(Hidden::Join {
            x: self.x,
            before: self.buffers.of("before", hidden),
            ring: self.buffers.of("ring", hidden),
            out: self.buffers.of("joined", 2 * hidden),
        }));
    }
}

impl Assistant {
    /// Adds the operations of a pass after the join. The writer is that of the assistant, whose model has a width of `hidden`.
    pub(super) fn write(&self, writer: &mut Writer<'_>, hidden: usize, logits: Buffer) {
        let weights = &self.weights.weights;
        writer.ops.push(Op::Product {
            input: writer.buffers.of("joined", 2 * hidden),
            weight: self.weights.join,
            out: writer.x,
        });
        for (index, layer) in weights.layers.iter().enumerate() {
            writer.layer(index, layer);
        }
        let normed = writer.buffers.of("normed", self.shape.hidden);
        writer.ops.extend([
            Op::Norm {
                x: writer.x,
                norm: weights.output_norm,
                epsilon: writer.epsilon,
                first: 0,
                out: normed,
            },
            Op::Product {
                input: normed,
                weight: self.weights.hidden,
                out: writer.buffers.of("before", hidden),
            },
        ]);
        let head = weights.head.unwrap_or(weights.embedding);
        writer.head((weights.output_norm, head), logits);
        writer.ops.push(Op::Sample { logits });
    }
}
