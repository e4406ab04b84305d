//! Products of quantized matrices with rows of activations.
//!
//! A few weight rows at a time are decoded into a buffer that stays in the cache and multiplied with every input row.
//! Products are (outputs, rows), so that threads write to places of their own; they are transposed as they are merged.
//! The bits of a product depend neither on the number of rows, nor on the threads, nor on the machine: see `dots`.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::Matrix;
use super::dots::Dots;
use super::exp::exp;

/// Weight rows that a thread takes at a time.
const BLOCK: usize = 16;
/// Rows of a product that a thread transposes at a time: as many floats as a cache line has.
const TRANSPOSED: usize = 16;

/// `product = weight input^T`: input is (rows, columns), product (outputs, rows).
pub(super) fn multiply(weight: &Matrix, input: &[f32], rows: usize, product: &mut [f32]) {
    let columns = weight.columns();
    let arch = pulp::Arch::new();
    product
        .par_chunks_mut(BLOCK * rows)
        .enumerate()
        .for_each_init(
            || vec![0.0; BLOCK * columns],
            |buffer, (block, out)| {
                let outputs = out.len() / rows;
                arch.dispatch(Outputs {
                    weight,
                    first: block * BLOCK,
                    input,
                    buffer: &mut buffer[..outputs * columns],
                    out,
                });
            },
        );
}

/// `product = silu(gate input^T) * (up input^T)`, shapes as in `multiply`.
pub(super) fn gate_up(gate: &Matrix, up: &Matrix, input: &[f32], rows: usize, product: &mut [f32]) {
    let columns = gate.columns();
    let arch = pulp::Arch::new();
    product
        .par_chunks_mut(BLOCK * rows)
        .enumerate()
        .for_each_init(
            || (vec![0.0; BLOCK * columns], vec![0.0; BLOCK * rows]),
            |(buffer, gates), (block, out)| {
                let outputs = out.len() / rows;
                for (weight, out) in [(gate, &mut gates[..out.len()]), (up, &mut *out)] {
                    arch.dispatch(Outputs {
                        weight,
                        first: block * BLOCK,
                        input,
                        buffer: &mut buffer[..outputs * columns],
                        out,
                    });
                }
                arch.dispatch(Gated { gates, out });
            },
        );
}

/// Calls `merge(out, product, output)` for each element: product is (outputs, rows), out (rows, outputs).
pub(super) fn transpose(
    product: &[f32],
    rows: usize,
    out: &mut [f32],
    merge: impl Fn(&mut f32, f32, usize) + Sync,
) {
    let outputs = product.len() / rows;
    out[..outputs * rows]
        .par_chunks_mut(TRANSPOSED * outputs)
        .enumerate()
        .for_each(|(block, out)| {
            let first = block * TRANSPOSED;
            let count = out.len() / outputs;
            for (output, products) in product.chunks_exact(rows).enumerate() {
                for (row, product) in products[first..first + count].iter().enumerate() {
                    merge(&mut out[row * outputs + output], *product, output);
                }
            }
        });
}

/// A thread's share of a product: a type of its own, because only what is inlined into `with_simd` is
/// compiled for the vector instructions of the machine at hand.
struct Outputs<'a> {
    weight: &'a Matrix,
    /// The first of its outputs.
    first: usize,
    input: &'a [f32],
    /// For as many decoded weight rows as there are outputs.
    buffer: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Outputs<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.weight.columns();
        for (index, row) in self.buffer.chunks_exact_mut(columns).enumerate() {
            self.weight.dequantize_row(self.first + index, row);
        }
        Dots {
            left: self.buffer,
            right: self.input,
            columns,
            out: self.out,
        }
        .with_simd(simd);
    }
}

/// `out = silu(gates) * out`
struct Gated<'a> {
    gates: &'a [f32],
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, gate) in self.out.iter_mut().zip(self.gates) {
            *out *= silu(*gate);
        }
    }
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}
