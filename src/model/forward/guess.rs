//! The head that guesses tokens: its keys and values in the tapes of the model, and its own passes. An assistant's operations
//! are in `assistant`.
//!
//! The head's row at a position joins the token there with the model's hidden state of the position before, after the
//! output norm, and predicts the token at the next position. So the head's K and V at a position depend on no later token,
//! and pages that conversations share hold for all of them. At position 0 the hidden state is zero.

use super::Forward;
use super::guesser::Guesser;
use super::writer::{Writer, projection};
use crate::model::shape::{AttentionShape, LayerShape, MixerShape};
use crate::model::weights::{Attention, GuessHead};
use crate::tape::{Buffer, Ending, HeadNorms, Input, Op, Recurrent, Rotation, Tape, WeightId};

impl Forward {
    /// Writes the tape of a pass of the head or the assistant with `rows` rows of a step; `None` without one. It guesses a token
    /// after each row, whose hidden state is the model's if the row is the first of its slot, and otherwise the guesser's own of
    /// the row before, from the pass before. Its buffers are those of `tape`, in the same order.
    #[must_use]
    pub fn guess_tape(&self, rows: usize) -> Option<Tape> {
        let guesser = self.guess.as_ref()?;
        let (input, ending) = (Input::Step, Ending::Token);
        let (mut writer, logits) = self.writer(rows, (input, ending), false);
        match guesser {
            Guesser::Head(head) => {
                writer.embed(head.embedding.unwrap_or(self.weights.embedding));
                self.head_pass(&mut writer, head, logits);
            }
            Guesser::Assistant(assistant) => {
                writer.embed(self.weights.embedding);
                writer.join_hidden();
                writer = Writer {
                    x: writer.buffers.of("x", assistant.shape.hidden),
                    epsilon: assistant.shape.norm_epsilon,
                    shape: &assistant.shape,
                    ..writer
                };
                assistant.write(&mut writer, self.shape.hidden, logits);
            }
        }
        Some(self.finish(writer, rows, (input, ending)))
    }

    fn head_pass(&self, writer: &mut Writer<'_>, head: &GuessHead<WeightId>, logits: Buffer) {
        let x = writer.x;
        writer.guess_embedding(head);
        writer.guess_join(head, x);
        writer.guess_layer(head);
        let norm = head.output_norm.unwrap_or(self.weights.output_norm);
        writer.guess_hidden(norm);
        let weight = self.weights.head.unwrap_or(self.weights.embedding);
        let weight = head.head.unwrap_or(weight);
        writer.head((norm, weight), logits);
        writer.ops.push(Op::Sample { logits });
    }
}

impl Writer<'_> {
    /// Adds the norm of the embeddings, which the residual stream has before the first layer.
    pub(super) fn guess_embedding(&mut self, head: &GuessHead<WeightId>) {
        self.ops.push(Op::Norm {
            x: self.x,
            norm: head.embedding_norm,
            epsilon: self.epsilon,
            first: 0,
            out: self.buffers.of("joined", 2 * self.shape.hidden),
        });
    }

    /// Adds K and V of the head, after the last layer of the model.
    pub(super) fn guess_keys(&mut self, head: &GuessHead<WeightId>, output_norm: WeightId) {
        self.guess_hidden(output_norm);
        let joined = self.buffers.of("before", self.shape.hidden);
        self.guess_join(head, joined);
        if let Some((shape, weights)) = self.guess_attention(head) {
            self.guess_store(shape, weights, joined);
        }
    }

    /// Adds the hidden states: the residual stream after an output norm.
    fn guess_hidden(&mut self, norm: WeightId) {
        self.ops.push(Op::Norm {
            x: self.x,
            norm,
            epsilon: self.epsilon,
            first: 0,
            out: self.buffers.of("hidden", self.shape.hidden),
        });
    }

    /// Adds the head's input: the normed embeddings joined with the hidden states of the positions before.
    fn guess_join(&mut self, head: &GuessHead<WeightId>, out: Buffer) {
        let hidden = self.shape.hidden;
        let joined = self.buffers.of("joined", 2 * hidden);
        let before = self.buffers.of("before", hidden);
        self.ops.extend([
            Op::Recurrent(Recurrent::Shift {
                input: self.buffers.of("hidden", hidden),
                out: before,
            }),
            Op::Norm {
                x: before,
                norm: head.hidden_norm,
                epsilon: self.shape.norm_epsilon,
                first: hidden,
                out: joined,
            },
            Op::Product {
                input: joined,
                weight: head.join,
                out,
            },
        ]);
    }

    /// Adds the head's layer, on the residual stream.
    fn guess_layer(&mut self, head: &GuessHead<WeightId>) {
        if let Some((shape, weights)) = self.guess_attention(head) {
            self.attention(self.shape.layers.len(), shape, weights);
        }
        let mlp = self.shape.guess.and_then(|layer| layer.mlp);
        if let (Some(shape), Some(weights)) = (mlp, &head.layer.mlp) {
            self.mlp(shape, weights);
        }
    }

    fn guess_attention<'h>(
        &self,
        head: &'h GuessHead<WeightId>,
    ) -> Option<(AttentionShape, &'h Attention<WeightId>)> {
        let mixer = self.shape.guess.and_then(|LayerShape { mixer, .. }| mixer);
        let Some(MixerShape::Attention(shape)) = mixer else {
            return None;
        };
        Some((shape, head.layer.attention()?))
    }

    /// Adds the operations that store K and V of the head's layer. No query is of use here, so the rotation turns those of
    /// the last layer once more.
    fn guess_store(&mut self, shape: AttentionShape, weights: &Attention<WeightId>, x: Buffer) {
        let (Some(of_k), Some(of_v)) = (&weights.k, &weights.v) else {
            return;
        };
        let (query, width) = (shape.query_width(), shape.kv_width());
        let kv = ["k", "v"].map(|name| self.buffers.of(name, width));
        let [q, rotated] = ["q", "rotated"].map(|name| self.buffers.of(name, query));
        let (has_images, images) = (self.has_images, self.shape.images);
        self.ops.extend([
            Op::Qkv {
                x,
                norm: weights.norm,
                epsilon: self.shape.norm_epsilon,
                projections: vec![projection(of_k, kv[0]), projection(of_v, kv[1])],
            },
            Op::RopeStore {
                layer: self.shape.cache_layer(self.shape.layers.len(), &shape),
                q,
                kv: Some(kv),
                norms: HeadNorms {
                    q: None,
                    k: weights.k_norm,
                    v: shape.norms_values,
                },
                epsilon: self.shape.norm_epsilon,
                rotation: Rotation {
                    sections: images.sections.filter(|_| has_images),
                    ..self.shape.rotation(&shape)
                },
                rotated,
            },
        ]);
    }
}
