//! Products with many rows of the input: a few rows of the weight are decoded once, and multiplied with every row.

use std::array;

use pulp::NullaryFnOnce;

use super::inputs::{Inputs, Row};
use super::machine::{Columns, Machine, SUMS};
use crate::cpu::dots::sixteen_in_pairs;
use crate::cpu::weight::Matrix;

/// Rows of a weight: the products of its integers and their integer factors.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// (rows, columns / 32)
    columns: Vec<Columns>,
    /// (rows, columns / span)
    scales: Vec<f32>,
    /// (rows, columns / span), or empty
    addends: Vec<[f32; SUMS]>,
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
        let Self {
            columns,
            scales,
            addends,
        } = self;
        columns.clear();
        scales.clear();
        addends.clear();
        for row in first..first + rows {
            weight.spans(
                row,
                #[inline(always)]
                |span| {
                    for (at, integers) in span.integers.as_chunks().0.iter().enumerate() {
                        let weights = machine.weights(integers);
                        let weights = machine.scaled_halves(weights, span.scales(at));
                        columns.push(machine.columns(weights));
                    }
                    scales.push(span.scale);
                    addends.extend(span.addends);
                },
            );
        }
    }

    /// Row `row` of those whose columns are as long as `of`.
    #[inline(always)]
    fn row(&self, row: usize, of: &Row<'_>) -> (&[Columns], &[f32], &[[f32; SUMS]]) {
        let (columns, spans) = (of.columns.len(), of.units.len());
        let addends = self.addends.get(row * spans..).unwrap_or_default();
        (
            &self.columns[row * columns..][..columns],
            &self.scales[row * spans..][..spans],
            &addends[..spans.min(addends.len())],
        )
    }
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
    let right: [_; B] = array::from_fn(|b| inputs.row(row + b));
    let left: [_; A] = array::from_fn(|a| decoded.row(first + a, &right[0]));
    let spans = right[0].units.len();
    let each = right[0].columns.len() / spans;
    let mut totals = [[machine.zeros(); B]; A];
    let mut added = [[machine.zeros(); B]; A];
    for span in 0..spans {
        let columns = span * each..(span + 1) * each;
        let lefts: [_; A] = array::from_fn(|a| &left[a].0[columns.clone()]);
        let rights: [_; B] = array::from_fn(|b| &right[b].columns[columns.clone()]);
        let mut sums = [[machine.no_sums(); B]; A];
        for at in 0..each {
            for a in 0..A {
                let weights = machine.load(&lefts[a][at]);
                for b in 0..B {
                    sums[a][b] = machine.add(weights, &rights[b][at], sums[a][b]);
                }
            }
        }
        for a in 0..A {
            for b in 0..B {
                let scale = left[a].1[span] * right[b].units[span];
                totals[a][b] = machine.total(sums[a][b], scale, totals[a][b]);
            }
            let Some(addends) = left[a].2.get(span) else {
                continue;
            };
            for b in 0..B {
                if let Ok(pieces) = right[b].sums[columns.clone()].as_flattened().try_into() {
                    added[a][b] = machine.multiply_add(addends, pieces, added[a][b]);
                }
            }
        }
    }
    array::from_fn(|a| array::from_fn(|b| whole(machine, totals[a][b], added[a][b])))
}

/// A product from its partial sums.
#[inline(always)]
pub(super) fn whole<M: Machine>(machine: M, totals: M::Totals, added: M::Totals) -> f32 {
    let [products, added] = [totals, added].map(|totals| machine.numbers(totals));
    sixteen_in_pairs(&products) + sixteen_in_pairs(&added)
}
