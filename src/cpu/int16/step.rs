//! Products of a step's rows: each block of the weight is unpacked in vectors, and multiplied with a few rows.
#![allow(clippy::needless_range_loop)] // most loops are over several arrays

use std::hint::black_box;
use std::ops::Range;

use pulp::NullaryFnOnce;

use super::inputs::Inputs;
use super::machine::{Machine, sum_of_four};
use super::spans;
use crate::cpu::prefetch::prefetch;
use crate::cpu::weight::Matrix;
use crate::quant::{Blocks, Integers, Long, SHORT, Short};

/// Bytes of weights that are prefetched.
const AHEAD: usize = 2048;
/// The number of 64 columns in a long block.
const PARTS: usize = 4;
/// Rows that are multiplied together if there are no more.
const FEW: usize = 4;

/// Some rows of a weight with all rows of the input, `TOGETHER` of them at a time.
pub(super) struct Products<'a, M, const TOGETHER: usize> {
    pub(super) machine: M,
    pub(super) weight: &'a Matrix,
    pub(super) first: usize,
    pub(super) inputs: &'a Inputs,
    pub(super) out: &'a mut [f32],
}

impl<M: Machine, const TOGETHER: usize> NullaryFnOnce for Products<'_, M, TOGETHER> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            machine,
            weight,
            first,
            inputs,
            out,
        } = self;
        let rows = inputs.rows();
        let (all, ahead) = (weight.rows(), AHEAD.div_ceil(weight.row(first).len()));
        for (row, out) in (first..).zip(out.chunks_exact_mut(rows)) {
            if row + ahead < all {
                prefetch(weight.row(row + ahead));
            }
            let mut of = 0..rows;
            while !of.is_empty() {
                // Decoding a block takes longer than products with rows that are not needed.
                let next = match of.len() {
                    1 => {
                        [out[of.start]] = products(machine, (weight, row), inputs, of.start);
                        1
                    }
                    2..=FEW => several::<M, FEW>(machine, (weight, row), inputs, &of, out),
                    _ => several::<M, TOGETHER>(machine, (weight, row), inputs, &of, out),
                };
                of.start += next;
            }
        }
    }
}

/// Multiplies a row of the weight with up to `R` of some rows of the input, and returns their number.
#[inline(always)]
fn several<M: Machine, const R: usize>(
    machine: M,
    weight: (&Matrix, usize),
    inputs: &Inputs,
    rows: &Range<usize>,
    out: &mut [f32],
) -> usize {
    let products = products::<M, R>(machine, weight, inputs, rows.start);
    let count = rows.len().min(R);
    out[rows.start..][..count].copy_from_slice(&products[..count]);
    count
}

/// Multiplies a row of the weight with `R` rows of the input; the last row stands for rows beyond it.
#[inline(always)]
fn products<M: Machine, const R: usize>(
    machine: M,
    (weight, row): (&Matrix, usize),
    inputs: &Inputs,
    first: usize,
) -> [f32; R] {
    let (mut long, mut short) = ([const { [].as_slice() }; R], [const { [].as_slice() }; R]);
    for r in 0..R {
        let row = (first + r).min(inputs.rows() - 1);
        (long[r], short[r]) = (inputs.long(row), inputs.short(row));
    }
    let mut sums = Sums {
        machine,
        parts: black_box(PARTS),
        long,
        short,
        of: [Partial {
            long: machine.zeros(),
            short: [0.0; SHORT],
        }; R],
    };
    weight.spans(machine, row, &mut sums);
    let mut products = [0.0; R];
    for r in 0..R {
        products[r] = sums.of[r].whole(machine);
    }
    products
}

/// The sums of a row of the weight with `R` rows of the input, of which the columns are left.
struct Sums<'a, M: Machine, const R: usize> {
    machine: M,
    /// `PARTS`. The compiler does not know the number and does not unroll a loop over the parts: it fuses products with
    /// their addition only if a sum has one of them in a loop.
    parts: usize,
    long: [&'a [spans::Long]; R],
    short: [&'a [spans::Short]; R],
    of: [Partial<M>; R],
}

/// The partial sums of a product.
#[derive(Clone, Copy)]
struct Partial<M: Machine> {
    long: M::Totals,
    /// Those of short blocks, of which each fourth has the same sum, and of long blocks with small products.
    short: [f32; SHORT],
}

impl<M: Machine> Partial<M> {
    #[inline(always)]
    fn whole(self, machine: M) -> f32 {
        machine.whole(self.long) + sum_of_four(self.short)
    }
}

/// `sums += scales * products`
#[inline(always)]
fn add_four(scales: [f32; SHORT], products: [i32; SHORT], sums: &mut [f32; SHORT]) {
    for at in 0..SHORT {
        #[allow(clippy::cast_precision_loss)] // rounded to the nearest, on every machine
        let products = products[at] as f32;
        sums[at] = scales[at].mul_add(products, sums[at]);
    }
}

impl<M: Machine, const R: usize> Blocks<M> for Sums<'_, M, R> {
    #[inline(always)]
    fn long(&mut self, factors: &Long, integers: impl Integers<M, 4>) {
        let machine = self.machine;
        let mut of = [spans::Long::NONE; R];
        for r in 0..R {
            if let Some((next, rest)) = self.long[r].split_first() {
                (of[r], self.long[r]) = (next, rest);
            }
        }
        let integers = integers.unpack(machine);
        let (mut even, mut odd) = ([machine.no_sums(); R], [machine.no_sums(); R]);
        // Additions of a single row cost less than the loop.
        for at in 0..if R > 1 { self.parts } else { PARTS } {
            let at = at % PARTS;
            let by = machine.factors(&factors.scales, factors.columns, at);
            let weights = machine.scaled(integers[at], by);
            for r in 0..R {
                even[r] = machine.add(weights[0], &of[r].columns[2 * at], even[r]);
                let sums = if M::ONE_CHAIN {
                    &mut even[r]
                } else {
                    &mut odd[r]
                };
                *sums = machine.add(weights[1], &of[r].columns[2 * at + 1], *sums);
            }
        }
        for r in 0..R {
            let (sums, scale) = (&mut self.of[r], factors.scale * of[r].unit);
            let products = machine.both(even[r], odd[r]);
            if factors.are_small {
                let quarters = machine.quarters(products);
                add_four([scale; SHORT], quarters, &mut sums.short);
            } else {
                sums.long = machine.total(products, machine.splat(scale), sums.long);
            }
        }
        if let Some((minimum, minima)) = &factors.minima {
            let addends = machine.addends(*minimum, minima);
            for r in 0..R {
                let (sums, columns) = (&mut self.of[r].long, of[r].sums(factors.columns));
                *sums = machine.multiply_add(addends, machine.totals(columns), *sums);
            }
        }
    }

    #[inline(always)]
    fn short(&mut self, factors: &Short, integers: impl Integers<M, 2>) {
        let machine = self.machine;
        let mut of = [spans::Short::NONE; R];
        for r in 0..R {
            if let Some((next, rest)) = self.short[r].split_first() {
                (of[r], self.short[r]) = (next, rest);
            }
        }
        let integers = integers.unpack(machine);
        let mut products = [[machine.no_sums(); 2]; R];
        for at in 0..integers.len() {
            let [even, odd] = machine.weights(integers[at], factors.signed);
            for r in 0..R {
                let of_even = machine.add(even, &of[r].columns[2 * at], machine.no_sums());
                products[r][at] = machine.add(odd, &of[r].columns[2 * at + 1], of_even);
            }
        }
        for r in 0..R {
            let mut scales = factors.scales;
            for (scale, unit) in scales.iter_mut().zip(of[r].units) {
                *scale *= unit;
            }
            let of_blocks = machine.of_blocks(products[r]);
            add_four(scales, of_blocks, &mut self.of[r].short);
        }
        if let Some(addends) = &factors.addends {
            for r in 0..R {
                let sums = &mut self.of[r].short;
                for block in 0..SHORT {
                    sums[block] = addends[block].mul_add(of[r].sums[block], sums[block]);
                }
            }
        }
    }
}
