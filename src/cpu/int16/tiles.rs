//! Products with many rows of the input: a few rows of the weight are decoded once, and multiplied with every row.
#![allow(clippy::needless_range_loop)] // most loops are over several arrays

use std::hint::black_box;

use pulp::NullaryFnOnce;

use super::inputs::Inputs;
use super::machine::{Columns, Machine, SUMS};
use crate::cpu::weight::Matrix;
use crate::quant::{Blocks, Integers, Long, Short};

/// The `Columns` of a long block.
const PARTS: usize = 8;

/// Rows of a weight: the products of its integers and their integer factors.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// (rows, columns / 256)
    columns: Vec<[Columns; PARTS]>,
    /// (rows, columns / 256)
    scales: Vec<f32>,
    /// (rows, columns / 256), or empty
    addends: Vec<[f32; SUMS]>,
    /// The columns of a group.
    group: usize,
}

/// Some rows of a weight with all rows of the input: tiles of `A` of the weight and `B` of the input.
pub(super) struct Tiles<'a, M, const A: usize, const B: usize> {
    pub(super) machine: M,
    pub(super) weight: &'a Matrix,
    pub(super) first: usize,
    pub(super) inputs: &'a Inputs,
    pub(super) decoded: &'a mut Decoded,
    pub(super) out: &'a mut [f32],
}

impl<M: Machine, const A: usize, const B: usize> NullaryFnOnce for Tiles<'_, M, A, B> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            machine,
            weight,
            first,
            inputs,
            decoded,
            out,
        } = self;
        let rows = inputs.rows();
        for (index, out) in out.chunks_mut(A * rows).enumerate() {
            let count = out.len() / rows;
            decoded.fill(machine, weight, first + index * A, count);
            if count == A {
                band::<M, A, B>(machine, decoded, 0, inputs, out);
                continue;
            }
            for (row, out) in out.chunks_exact_mut(rows).enumerate() {
                band::<M, 1, B>(machine, decoded, row, inputs, out);
            }
        }
    }
}

impl Decoded {
    #[inline(always)]
    fn fill<M: Machine>(&mut self, machine: M, weight: &Matrix, first: usize, rows: usize) {
        self.columns.clear();
        self.scales.clear();
        self.addends.clear();
        for row in first..first + rows {
            weight.spans(machine, row, &mut Filling { machine, to: self });
        }
    }

    /// Returns the columns, scales and addends of a row, each with `spans` long blocks.
    #[inline(always)]
    fn row(&self, row: usize, spans: usize) -> (&[[Columns; PARTS]], &[f32], &[[f32; SUMS]]) {
        let addends = self.addends.get(row * spans..).unwrap_or_default();
        (
            &self.columns[row * spans..][..spans],
            &self.scales[row * spans..][..spans],
            &addends[..spans.min(addends.len())],
        )
    }
}

/// Appends blocks to decoded rows.
struct Filling<'a, M> {
    machine: M,
    to: &'a mut Decoded,
}

impl<M: Machine> Blocks<M> for Filling<'_, M> {
    #[inline(always)]
    fn long(&mut self, factors: &Long, integers: impl Integers<M, 4>) {
        let Self { machine, to } = self;
        let integers = integers.unpack(*machine);
        let mut columns = [Columns::ZEROS; PARTS];
        for (at, pair) in columns.as_chunks_mut().0.iter_mut().enumerate() {
            let by = machine.factors(&factors.scales, factors.columns, at);
            let [even, odd] = machine.scaled(integers[at], by);
            *pair = [machine.columns(even), machine.columns(odd)];
        }
        to.columns.push(columns);
        to.scales.push(factors.scale);
        to.group = factors.columns;
        if let Some((minimum, minima)) = &factors.minima {
            to.addends.push(machine.addends(*minimum, minima));
        }
    }

    /// Tiles have no short blocks.
    #[inline(always)]
    fn short(&mut self, _: &Short, _: impl Integers<M, 2>) {}
}

/// The products of `A` decoded rows, from `first` on, with all rows of the input.
#[inline(always)]
fn band<M: Machine, const A: usize, const B: usize>(
    machine: M,
    decoded: &Decoded,
    first: usize,
    inputs: &Inputs,
    out: &mut [f32],
) {
    let rows = inputs.rows();
    let whole = rows / B * B;
    for row in (0..whole).step_by(B) {
        let products = tile::<M, A, B>(machine, decoded, first, inputs, row);
        for (out, products) in out.chunks_exact_mut(rows).zip(products) {
            out[row..row + B].copy_from_slice(&products);
        }
    }
    for row in whole..rows {
        let products = tile::<M, A, 1>(machine, decoded, first, inputs, row);
        for (out, [product]) in out.chunks_exact_mut(rows).zip(products) {
            out[row] = product;
        }
    }
}

#[inline(always)]
fn tile<M: Machine, const A: usize, const B: usize>(
    machine: M,
    decoded: &Decoded,
    first: usize,
    inputs: &Inputs,
    row: usize,
) -> [[f32; B]; A] {
    let mut right = [inputs.long(row); B];
    for b in 1..B {
        right[b] = inputs.long(row + b);
    }
    let spans = right[0].len();
    let mut left = [decoded.row(first, spans); A];
    for a in 1..A {
        left[a] = decoded.row(first + a, spans);
    }
    // The compiler fuses products with their addition only if a sum has one of them in a loop. It does not unroll one
    // with an unknown number.
    let parts = black_box(PARTS);
    let mut totals = [[machine.zeros(); B]; A];
    let mut added = [[machine.zeros(); B]; A];
    for span in 0..spans {
        let mut weights = [&left[0].0[span]; A];
        for a in 1..A {
            weights[a] = &left[a].0[span];
        }
        let mut rights = [&right[0][span]; B];
        for b in 1..B {
            rights[b] = &right[b][span];
        }
        let mut sums = [[machine.no_sums(); B]; A];
        for at in 0..parts {
            let at = at % PARTS;
            for a in 0..A {
                let weights = machine.loaded(&weights[a][at]);
                for b in 0..B {
                    sums[a][b] = machine.add(weights, &rights[b].columns[at], sums[a][b]);
                }
            }
        }
        for a in 0..A {
            for b in 0..B {
                let scale = left[a].1[span] * rights[b].unit;
                totals[a][b] = machine.total(sums[a][b], scale, totals[a][b]);
            }
            let Some(addends) = left[a].2.get(span) else {
                continue;
            };
            for b in 0..B {
                let columns = rights[b].sums(decoded.group);
                added[a][b] = machine.multiply_add(addends, columns, added[a][b]);
            }
        }
    }
    let mut products = [[0.0; B]; A];
    for a in 0..A {
        for b in 0..B {
            // A long block has no four sums, whose zero a step adds.
            products[a][b] = machine.whole(totals[a][b], added[a][b]) + 0.0;
        }
    }
    products
}
