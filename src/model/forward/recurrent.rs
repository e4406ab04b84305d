//! The operations of recurrent layers.

use super::writer::Writer;
use crate::model::shape::{DeltaNetShape, Mamba2Shape, ShortConvShape};
use crate::model::weights::{DeltaNet, Mamba2, ShortConv};
use crate::tape::{Convolution, GateOrder, Op, Projection, Recurrent, WeightId};

/// What is added to the sums of squares of q and k.
const SQUARES_EPSILON: f32 = 1e-6;

impl Writer<'_> {
    pub(super) fn delta_net(&mut self, layer: usize, shape: DeltaNetShape, w: &DeltaNet<WeightId>) {
        let (channels, width) = (shape.channels(), shape.value_width());
        let buffers = &self.buffers;
        let (mixed, convolved) = (
            buffers.of("mixed", channels),
            buffers.of("convolved", channels),
        );
        let (z, y) = (buffers.of("z", width), buffers.of("y", width));
        let gates = ["a", "b"].map(|name| buffers.of(name, shape.value_heads));
        let out = buffers.of("mixer", width);
        let of = |weight, out| projection(weight, out);
        let projections = vec![
            of(w.qkv, mixed),
            of(w.z, z),
            of(w.a, gates[0]),
            of(w.b, gates[1]),
        ];
        self.inputs(w.norm, projections);
        let ops = [
            Recurrent::Convolve {
                layer,
                input: mixed,
                convolution: convolution(w.conv, None),
                silu: true,
                out: convolved,
            },
            Recurrent::DeltaNet {
                layer,
                input: convolved,
                gates,
                rate: w.decay,
                dt_bias: w.step_bias,
                epsilon: SQUARES_EPSILON,
                out: y,
            },
            Recurrent::GatedNorm {
                y,
                gate: z,
                norm: w.result_norm,
                epsilon: self.shape.norm_epsilon,
                order: GateOrder::NormFirst,
                group: shape.value_dim,
                out,
            },
        ];
        self.ops.extend(ops.map(Op::Recurrent));
        self.add_result(out, w.output, None);
    }

    pub(super) fn mamba2(&mut self, layer: usize, shape: Mamba2Shape, w: &Mamba2<WeightId>) {
        let (channels, width) = (shape.channels(), shape.inner());
        let buffers = &self.buffers;
        let (mixed, convolved) = (
            buffers.of("mixed", channels),
            buffers.of("convolved", channels),
        );
        let (z, y) = (buffers.of("z", width), buffers.of("y", width));
        let gate = buffers.of("a", shape.heads);
        let out = buffers.of("mixer", width);
        let of = |weight, out| projection(weight, out);
        let projections = vec![of(w.gate, z), of(w.input, mixed), of(w.step, gate)];
        self.inputs(w.norm, projections);
        let ops = [
            Recurrent::Convolve {
                layer,
                input: mixed,
                convolution: convolution(w.conv, Some(w.conv_bias)),
                silu: true,
                out: convolved,
            },
            Recurrent::Mamba2 {
                layer,
                input: convolved,
                gate,
                rate: w.decay,
                dt_bias: w.step_bias,
                skip: w.skip,
                out: y,
            },
            Recurrent::GatedNorm {
                y,
                gate: z,
                norm: w.result_norm,
                epsilon: self.shape.norm_epsilon,
                order: GateOrder::GateFirst,
                group: width / shape.groups,
                out,
            },
        ];
        self.ops.extend(ops.map(Op::Recurrent));
        self.add_result(out, w.output, None);
    }

    pub(super) fn short_conv(&mut self, layer: usize, _: ShortConvShape, w: &ShortConv<WeightId>) {
        let hidden = self.shape.hidden;
        let input = self.buffers.of("mixed", 3 * hidden);
        let out = self.buffers.of("mixer", hidden);
        self.inputs(w.norm, vec![projection(w.input, input)]);
        self.ops.push(Op::Recurrent(Recurrent::ShortConv {
            layer,
            input,
            convolution: convolution(w.conv, None),
            out,
        }));
        self.add_result(out, w.output, None);
    }

    /// Adds the products of the normed residual stream that a mixer reads.
    fn inputs(&mut self, norm: WeightId, projections: Vec<Projection>) {
        self.ops.push(Op::Qkv {
            x: self.x,
            norm,
            epsilon: self.epsilon,
            projections,
        });
    }
}

const fn convolution(kernel: WeightId, bias: Option<WeightId>) -> Convolution {
    Convolution { kernel, bias }
}

const fn projection(weight: WeightId, out: crate::tape::Buffer) -> Projection {
    let bias = None;
    Projection { weight, bias, out }
}
