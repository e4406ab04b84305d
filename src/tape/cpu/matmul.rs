//! Products of quantized matrices with rows of activations.
//!
//! Each weight row is decoded once into a buffer that stays in the cache and multiplied with every
//! input row. Products are (outputs, rows), so that threads write to places of their own.
//! A dot product always adds in the same order, without fused multiply-add: its bits depend neither
//! on the number of rows, nor on the threads, nor on the machine.

use rayon::prelude::*;

use super::Matrix;

/// Weight rows that a thread takes at a time.
const BLOCK: usize = 16;
/// Partial sums of a dot product.
const LANES: usize = 32;

/// `product = weight input^T`: input is (rows, columns), product (outputs, rows).
pub(super) fn multiply(weight: &Matrix, input: &[f32], rows: usize, product: &mut [f32]) {
    for_each_output(
        product,
        rows,
        weight.columns(),
        #[inline(always)]
        |output, buffer, out| {
            weight.dequantize_row(output, buffer);
            dots(buffer, input, out);
        },
    );
}

/// `product = silu(gate input^T) * (up input^T)`, shapes as in `multiply`.
pub(super) fn gate_up(gate: &Matrix, up: &Matrix, input: &[f32], rows: usize, product: &mut [f32]) {
    for_each_output(
        product,
        rows,
        gate.columns(),
        #[inline(always)]
        |output, buffer, out| {
            gate.dequantize_row(output, buffer);
            dots(buffer, input, out);
            up.dequantize_row(output, buffer);
            for (out, input) in out.iter_mut().zip(input.chunks_exact(buffer.len())) {
                *out = silu(*out) * dot(buffer, input);
            }
        },
    );
}

/// Calls `merge(out, product, output)` for each element: product is (outputs, rows), out (rows, outputs).
pub(super) fn transpose(
    product: &[f32],
    rows: usize,
    out: &mut [f32],
    merge: impl Fn(&mut f32, f32, usize),
) {
    let outputs = product.len() / rows;
    for (row, out) in out.chunks_exact_mut(outputs).take(rows).enumerate() {
        for (output, (out, products)) in out.iter_mut().zip(product.chunks_exact(rows)).enumerate()
        {
            merge(out, products[row], output);
        }
    }
}

fn for_each_output(
    product: &mut [f32],
    rows: usize,
    columns: usize,
    compute: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    let arch = pulp::Arch::new();
    product
        .par_chunks_mut(BLOCK * rows)
        .enumerate()
        .for_each_init(
            || vec![0.0; columns],
            |buffer, (block, product)| {
                arch.dispatch(Outputs {
                    compute: &compute,
                    first: block * BLOCK,
                    rows,
                    buffer,
                    product,
                });
            },
        );
}

/// A thread's share of a product: a type of its own, because only what is inlined into `call` is
/// compiled for the vector instructions of the machine at hand.
struct Outputs<'a, F> {
    compute: &'a F,
    first: usize,
    rows: usize,
    buffer: &'a mut [f32],
    product: &'a mut [f32],
}

impl<F: Fn(usize, &mut [f32], &mut [f32])> pulp::NullaryFnOnce for Outputs<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (index, out) in self.product.chunks_exact_mut(self.rows).enumerate() {
            (self.compute)(self.first + index, self.buffer, out);
        }
    }
}

#[inline(always)]
fn dots(weight: &[f32], input: &[f32], out: &mut [f32]) {
    for (out, input) in out.iter_mut().zip(input.chunks_exact(weight.len())) {
        *out = dot(weight, input);
    }
}

/// The dot product of two rows of the same length.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        lanes = add_products(lanes, a, b);
    }
    if !a_rest.is_empty() {
        // Zeros add nothing; a loop of unknown length over the lanes would keep them out of registers.
        let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
        a[..a_rest.len()].copy_from_slice(a_rest);
        b[..b_rest.len()].copy_from_slice(b_rest);
        lanes = add_products(lanes, &a, &b);
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// `lanes + a * b`, lane by lane.
#[inline(always)]
fn add_products(mut lanes: [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) -> [f32; LANES] {
    for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
        *lane += a * b;
    }
    lanes
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}
