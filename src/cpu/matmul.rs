//! Products of quantized matrices with rows of activations.
//!
//! One row of input is multiplied with weights as they are decoded. For more, a few weight rows at a time are decoded into
//! a buffer that stays in the nearest cache, and multiplied with every input row. Products are (outputs, rows), so that
//! threads write to places of their own; they are transposed as they are merged. The bits of a product depend neither on
//! the number of rows, nor on the threads, nor on the machine: see `dots`.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::Matrix;
use super::dots::{Dots, StoredDots};
use super::exp::exp;

/// Outputs that a thread takes at a time.
const BLOCK: usize = 16;
/// Weight rows that are decoded at a time: as many as the widest tile of products has.
const DECODED: usize = 4;
/// Rows of a product that a thread transposes at a time: as many floats as a cache line has.
const TRANSPOSED: usize = 16;

thread_local! {
    /// Decoded weight rows; as long as the longest ones so far.
    static BUFFER: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// `product = weight input^T`: input is (rows, columns), product (outputs, rows).
pub(super) fn multiply(weight: &Matrix, input: &[f32], rows: usize, product: &mut [f32]) {
    let arch = pulp::Arch::new();
    product
        .par_chunks_mut(BLOCK * rows)
        .enumerate()
        .for_each(|(block, out)| {
            outputs(arch, weight, block * BLOCK, input, rows, out);
        });
}

/// `product = silu(gate input^T) * (up input^T)`, shapes as in `multiply`; `gates` is room for as much as the product.
pub(super) fn gate_up(
    gate: &Matrix,
    up: &Matrix,
    input: &[f32],
    rows: usize,
    gates: &mut [f32],
    product: &mut [f32],
) {
    let arch = pulp::Arch::new();
    gates
        .par_chunks_mut(BLOCK * rows)
        .zip(product.par_chunks_mut(BLOCK * rows))
        .enumerate()
        .for_each(|(block, (gates, out))| {
            outputs(arch, gate, block * BLOCK, input, rows, gates);
            outputs(arch, up, block * BLOCK, input, rows, out);
            arch.dispatch(Gated { gates, out });
        });
}

/// A thread's share of a product, from output `first` on.
fn outputs(
    arch: pulp::Arch,
    weight: &Matrix,
    first: usize,
    input: &[f32],
    rows: usize,
    out: &mut [f32],
) {
    if rows == 1 {
        return arch.dispatch(StoredDots {
            weight,
            first,
            input,
            out,
        });
    }
    BUFFER.with_borrow_mut(|buffer| {
        let length = DECODED * weight.columns();
        if buffer.len() < length {
            buffer.resize(length, 0.0);
        }
        for (index, out) in out.chunks_mut(DECODED * rows).enumerate() {
            arch.dispatch(Outputs {
                weight,
                first: first + index * DECODED,
                input,
                buffer: &mut buffer[..out.len() / rows * weight.columns()],
                out,
            });
        }
    });
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

/// A few outputs for all rows: a type of its own, because only what is inlined into `with_simd` is
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
