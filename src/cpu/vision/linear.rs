//! Linear layers: products with a bias, ranges that inputs and outputs are clamped to, and an activation function.

use std::ops::Range;

use super::super::activation::Activated;
use super::super::matmul::{Family, multiply};
use super::super::precision::Precision;
use super::super::threads::each;
use super::super::weight::Weight;
use crate::tape::{Buffer, Op, Tape, Vision};

/// Rows of a product at a time: their inputs fit the second cache, and a weight is decoded once for all of them.
const ROWS: usize = 128;
/// Rows of a product that a thread transposes at a time: the floats of a cache line.
const TRANSPOSED: usize = 16;

/// Returns the scratch elements that an operation needs, for rounded inputs and for a product.
pub(in crate::cpu) fn scratch(op: &Op, tape: &Tape) -> [usize; 2] {
    let Op::Vision(Vision::Linear { input, weight, .. }) = op else {
        return [0, 0];
    };
    let rows = tape.buffer(*input).rows.min(ROWS);
    [
        rows * tape.buffer(*input).columns,
        rows * tape.weight(*weight).rows,
    ]
}

/// Computes a linear layer; `out` is the whole buffer, and `room` as long as `scratch` says.
pub(super) fn linear(
    op: &Vision,
    tape: &Tape,
    weights: &[Weight],
    input: &[f32],
    (rounded, product): (&mut [f32], &mut [f32]),
    out: &mut [f32],
) {
    let Vision::Linear {
        input: Buffer(from),
        weight,
        bias,
        clip,
        activation,
        adds,
        out: target,
        first,
    } = *op
    else {
        return;
    };
    let weight = weights[weight.0].matrix();
    let bias = bias.map(|bias| weights[bias.0].vector());
    let info = tape.buffer(target);
    let (columns, outputs, wide) = (weight.columns(), weight.rows(), info.columns);
    let arch = pulp::Arch::new();
    let rounds = tape.buffers[from].dtype != tape.activation || clip.is_some();
    let inputs = input.chunks(ROWS * columns);
    for (input, out) in inputs.zip(out.chunks_mut(ROWS * wide)) {
        let rows = input.len() / columns;
        let mut input = input;
        if rounds {
            let rounded = &mut rounded[..input.len()];
            rounded.copy_from_slice(input);
            if let Some(clip) = clip {
                clamp(clip.input, rounded);
            }
            tape.activation.round(rounded);
            input = rounded;
        }
        let product = &mut product[..rows * outputs];
        multiply(
            Family::Prompt(Precision::F32),
            &[weight],
            input,
            rows,
            product,
        );
        let merge = |out: &mut f32, y: f32, output: usize| {
            let y = y + bias.map_or(0.0, |bias| bias[output]);
            let y = clip.map_or(y, |clip| bounded(clip.output, y));
            *out = if adds { *out + y } else { y };
        };
        let part = (wide, first..first + outputs);
        transpose(product, rows, part, out, merge, |values| {
            if let Some(activation) = activation {
                arch.dispatch(Activated {
                    activation,
                    values: &mut *values,
                });
            }
            info.dtype.round(values);
        });
    }
}

/// Calls `merge(out, product, output)` for each element, and then `finish` with the outputs of each row: product is
/// (outputs, rows), and a row of out has `wide` elements, of which the outputs fill a part.
fn transpose(
    product: &[f32],
    rows: usize,
    (wide, part): (usize, Range<usize>),
    out: &mut [f32],
    merge: impl Fn(&mut f32, f32, usize) + Sync,
    finish: impl Fn(&mut [f32]) + Sync,
) {
    each(
        out.chunks_mut(TRANSPOSED * wide).enumerate(),
        |(block, out): (usize, &mut [f32])| {
            let (first, count) = (block * TRANSPOSED, out.len() / wide);
            for (output, products) in product.chunks_exact(rows).enumerate() {
                for (row, y) in products[first..first + count].iter().enumerate() {
                    merge(&mut out[row * wide + part.start + output], *y, output);
                }
            }
            for row in out.chunks_exact_mut(wide) {
                finish(&mut row[part.clone()]);
            }
        },
    );
}

fn clamp(range: [f32; 2], values: &mut [f32]) {
    for value in values {
        *value = bounded(range, *value);
    }
}

/// A value within a range; not a number stays so.
fn bounded([least, greatest]: [f32; 2], value: f32) -> f32 {
    let value = if value < least { least } else { value };
    if value > greatest { greatest } else { value }
}
