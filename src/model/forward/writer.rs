//! The operations of a layer.

use super::buffers::Buffers;
use crate::model::shape::{AttentionShape, LayerShape, MixerShape, MlpShape, Shape};
use crate::model::weights::{Attention, Layer, LayerInput, LayerInputs, Linear, Mixer, Mlp};
use crate::tape::{
    Activation, Attention as Scores, Buffer, HeadNorms, ImageRows, Op, Projection, Rotation,
    WeightId,
};

/// A tape under construction.
pub(super) struct Writer<'a> {
    pub(super) shape: &'a Shape,
    pub(super) buffers: Buffers,
    pub(super) ops: Vec<Op>,
    /// The residual stream.
    pub(super) x: Buffer,
    /// The epsilon of norms of the residual stream.
    pub(super) epsilon: f32,
    /// Whether rows are embeddings of images.
    pub(super) has_images: bool,
}

impl Writer<'_> {
    /// Adds the embeddings of tokens, which begin the residual stream.
    pub(super) fn embed(&mut self, table: WeightId) {
        let multipliers = self.shape.multipliers;
        self.ops.push(Op::Embed {
            table,
            scale: multipliers.embedding / multipliers.residual,
            x: self.x,
        });
    }

    /// Adds the embeddings of the tokens, with those of images in their places.
    pub(super) fn embed_inputs(&mut self, table: WeightId) {
        self.embed(table);
        if self.has_images {
            let (rows, x) = (self.buffers.of("images", self.shape.hidden), self.x);
            self.ops.push(Op::Images(ImageRows::Place { rows, x }));
        }
    }

    /// Adds the logits: the product of the normed residual stream, by a norm and a matrix.
    pub(super) fn head(&mut self, (norm, weight): (WeightId, WeightId), logits: Buffer) {
        self.ops.push(Op::Head {
            x: self.x,
            norm,
            epsilon: self.epsilon,
            weight,
            logits,
        });
        let cap = self.shape.softcaps.logits;
        self.ops.extend(cap.map(|cap| Op::Softcap { logits, cap }));
    }

    /// Adds the operations of a layer.
    pub(super) fn layer(&mut self, index: usize, weights: &Layer<WeightId>) {
        let LayerShape { mixer, mlp } = self.shape.layers[index];
        match (&weights.mixer, mixer) {
            (Some(Mixer::Attention(weights)), Some(MixerShape::Attention(shape))) => {
                self.attention(index, shape, weights);
            }
            (Some(Mixer::DeltaNet(weights)), Some(MixerShape::DeltaNet(shape))) => {
                self.delta_net(self.shape.state_layer(index), shape, weights);
            }
            (Some(Mixer::Mamba2(weights)), Some(MixerShape::Mamba2(shape))) => {
                self.mamba2(self.shape.state_layer(index), shape, weights);
            }
            (Some(Mixer::ShortConv(weights)), Some(MixerShape::ShortConv(shape))) => {
                self.short_conv(self.shape.state_layer(index), shape, weights);
            }
            (None, None) => {}
            _ => unreachable!("weights are found for the mixers of the shape"),
        }
        if let (Some(weights), Some(shape)) = (&weights.mlp, mlp) {
            self.mlp(shape, weights);
        }
        if let Some(weights) = &weights.input {
            self.layer_input(index, weights);
        }
        // The last operation of a layer with a factor adds a normed result.
        if let (Some(by), Some(Op::AddNormed { scale, .. })) = (weights.scale, self.ops.last_mut())
        {
            *scale = Some(by);
        }
        if self.has_images {
            self.deepstack(index);
        }
    }

    /// Adds the further embeddings of images to the residual stream after a layer.
    fn deepstack(&mut self, layer: usize) {
        let Shape { hidden, images, .. } = *self.shape;
        if layer < images.deepstack {
            self.ops.push(Op::Images(ImageRows::Add {
                rows: self.buffers.of("deepstack", images.deepstack * hidden),
                first: layer * hidden,
                x: self.x,
            }));
        }
    }

    /// Adds the operations that make the additional inputs of layers.
    pub(super) fn layer_inputs(&mut self, weights: &LayerInputs<WeightId>) {
        let Shape {
            layer_input,
            hidden,
            norm_epsilon,
            ..
        } = *self.shape;
        let inputs = self
            .buffers
            .of("inputs", self.shape.layers.len() * layer_input);
        #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
        let (width, hidden) = (layer_input as f32, hidden as f32);
        self.ops.extend([
            Op::Product {
                input: self.x,
                weight: weights.projection,
                out: inputs,
            },
            Op::LayerInputs {
                table: weights.table,
                scale: width.sqrt(),
                norm: weights.norm,
                // The projection is divided by the root of the hidden size, which only the epsilon shows after a norm.
                epsilon: norm_epsilon * hidden,
                inputs,
            },
        ]);
    }

    /// Adds the additional input of a layer to the residual stream.
    fn layer_input(&mut self, layer: usize, weights: &LayerInput<WeightId>) {
        let width = self.shape.layer_input;
        let inputs = self.buffers.of("inputs", self.shape.layers.len() * width);
        let (gate, gated) = (
            self.buffers.of("gate", width),
            self.buffers.of("gated", width),
        );
        self.ops.extend([
            Op::Product {
                input: self.x,
                weight: weights.gate,
                out: gate,
            },
            Op::Gate {
                gate,
                input: Some(inputs),
                first: layer * width,
                activation: self.shape.activation,
                out: gated,
            },
        ]);
        self.add_result(gated, weights.projection, Some(weights.after));
    }

    pub(super) fn attention(
        &mut self,
        index: usize,
        shape: AttentionShape,
        w: &Attention<WeightId>,
    ) {
        let (of_q, of_kv) = (shape.query_width(), shape.kv_width());
        let buffers = &self.buffers;
        let q = buffers.of("q", of_q);
        let (rotated, attended) = (buffers.of("rotated", of_q), buffers.of("attended", of_q));
        let mut projections = vec![projection(&w.q, q)];
        let kv = w.k.as_ref().map(|of_k| {
            let k = buffers.of("k", of_kv);
            projections.push(projection(of_k, k));
            let v = w.v.as_ref().map_or(k, |of_v| {
                let v = buffers.of("v", of_kv);
                projections.push(projection(of_v, v));
                v
            });
            [k, v]
        });
        let gate = w.gate.map(|weight| {
            let out = buffers.of("gate", of_q);
            let bias = None;
            projections.push(Projection { weight, bias, out });
            (out, buffers.of("gated", of_q))
        });
        let layer = self.shape.cache_layer(index, &shape);
        let (has_images, images) = (self.has_images, self.shape.images);
        let rotation = Rotation {
            sections: images.sections.filter(|_| has_images),
            ..self.shape.rotation(&shape)
        };
        let scores = Scores {
            joins_images: has_images && images.joins(shape.window.is_some()),
            ..self.shape.scores(&shape)
        };
        self.ops.extend([
            Op::Qkv {
                x: self.x,
                norm: w.norm,
                epsilon: self.epsilon,
                projections,
            },
            Op::RopeStore {
                layer,
                q,
                kv,
                norms: HeadNorms {
                    q: w.q_norm,
                    k: w.k_norm,
                    v: shape.norms_values,
                },
                epsilon: self.shape.norm_epsilon,
                rotation,
                rotated,
            },
            Op::Attend {
                layer,
                q: rotated,
                attention: scores,
                out: attended,
            },
        ]);
        let result = gate.map_or(attended, |(gate, out)| {
            self.ops.push(Op::Gate {
                gate,
                input: Some(attended),
                first: 0,
                activation: Activation::Sigmoid,
                out,
            });
            out
        });
        self.add_result(result, w.output, w.after);
    }

    pub(super) fn mlp(&mut self, shape: MlpShape, w: &Mlp<WeightId>) {
        let out = self.buffers.of("mlp", shape.width);
        let (x, norm, epsilon) = (self.x, w.norm, self.epsilon);
        let activation = self.shape.activation;
        if let Some(gate) = w.gate {
            self.ops.push(Op::GateUp {
                x,
                norm,
                epsilon,
                gate,
                up: w.up,
                activation,
                out,
            });
        } else {
            let up = self.buffers.of("up", shape.width);
            let projection = Projection {
                weight: w.up,
                bias: None,
                out: up,
            };
            self.ops.extend([
                Op::Qkv {
                    x,
                    norm,
                    epsilon,
                    projections: vec![projection],
                },
                Op::Gate {
                    gate: up,
                    input: None,
                    first: 0,
                    activation,
                    out,
                },
            ]);
        }
        self.add_result(out, w.down, w.after);
    }

    /// Adds `weight input` to the residual stream, after a norm if there is one.
    pub(super) fn add_result(&mut self, input: Buffer, weight: WeightId, after: Option<WeightId>) {
        let x = self.x;
        match after {
            None => self.ops.push(Op::Project { input, weight, x }),
            Some(norm) => {
                let y = self.buffers.of("result", self.shape.hidden);
                self.ops.extend([
                    Op::Product {
                        input,
                        weight,
                        out: y,
                    },
                    Op::AddNormed {
                        y,
                        norm,
                        epsilon: self.shape.norm_epsilon,
                        scale: None,
                        x,
                    },
                ]);
            }
        }
    }
}

pub(super) const fn projection(linear: &Linear<WeightId>, out: Buffer) -> Projection {
    Projection {
        weight: linear.weight,
        bias: linear.bias,
        out,
    }
}
