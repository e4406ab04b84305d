//! The operations of vision towers, on all rows of an image.
//!
//! The bits of a row depend neither on the number of threads nor, apart from attention, on other rows. Products take a
//! block of rows at a time, so that their scratch memory does not grow with the image.

mod attention;
mod linear;
mod norm;
mod rotate;
mod square;

use self::attention::attend;
pub(super) use self::attention::thread_bytes;
pub(super) use self::linear::scratch;
use self::norm::norm;
use self::rotate::rotate;
use self::square::{merge, pool};
use super::weight::Weight;
use crate::tape::{Buffer, Tape, Vision};

/// The memory of an operation.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) weights: &'a [Weight],
    pub(super) activations: &'a mut [Vec<f32>],
    /// Clamped and rounded inputs, as `scratch` says.
    pub(super) rounded: &'a mut [f32],
    /// Products before they are transposed, as `scratch` says.
    pub(super) product: &'a mut [f32],
}

/// Runs an operation.
pub(super) fn execute(op: &Vision, tape: &Tape, memory: &mut Memory<'_>) {
    let len = |buffer: Buffer| tape.buffer(buffer).rows * tape.buffer(buffer).columns;
    // Each operation writes one buffer, which is not among the others that it reads.
    let (_, written) = op.buffers();
    let Some(target) = written.first().copied() else {
        return;
    };
    let mut filled = std::mem::take(&mut memory.activations[target.0]);
    let all = &mut filled[..len(target)];
    let read = |buffer: Buffer| &memory.activations[buffer.0][..len(buffer)];
    let vector = |id: Option<crate::tape::WeightId>| id.map(|id| memory.weights[id.0].vector());
    let columns = |buffer: Buffer| tape.buffer(buffer).columns;
    let mut rounds = true;
    match *op {
        Vision::Norm { x, norm: by, .. } => {
            let sides = (vector(by.weight), vector(by.bias));
            norm((by.kind, by.epsilon), sides, read(x), columns(x), all);
        }
        Vision::Linear { input, .. } => {
            let input = &memory.activations[input.0][..len(input)];
            let room = (&mut *memory.rounded, &mut *memory.product);
            linear::linear(op, tape, memory.weights, input, room, all);
            // A sum of residuals is f32, and other outputs are rounded block by block.
            rounds = false;
        }
        Vision::Rotate {
            qkv,
            heads,
            norms,
            epsilon,
            parts,
            turns,
            ..
        } => {
            let how = rotate::Heads {
                heads,
                head_dim: columns(turns),
                norms: [vector(norms.q), vector(norms.k)],
                norms_values: norms.v,
                epsilon,
                parts,
            };
            rotate(how, read(qkv), read(turns), all);
        }
        Vision::Attend {
            qkv, heads, scale, ..
        } => attend(
            read(qkv),
            columns(qkv) / 3 / heads,
            scale,
            columns(target),
            all,
        ),
        Vision::Merge { x, square, .. } => merge(read(x), columns(x), square, all),
        Vision::Pool {
            x,
            square,
            scale,
            standard,
            ..
        } => {
            let standard = standard.map(|of| of.map(|of| memory.weights[of.0].vector()));
            pool(read(x), columns(x), (square, scale), standard, all);
        }
    }
    if rounds {
        tape.buffer(target).dtype.round(all);
    }
    memory.activations[target.0] = filled;
}
