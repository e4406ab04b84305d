//! Products of weights whose blocks are integers with rows of activations of 16 bits.
//!
//! Each span of a row of activations, as long as a block of the weight, becomes 16-bit integers with a unit of its own:
//! each value is rounded to 2^-15 of the span's greatest. The products of a span are summed exactly, in 32 bits, and
//! scaled once.
//!
//! There are sixteen partial sums, each of two neighbouring columns in thirty-two. The bits of a product therefore
//! depend neither on the number of rows nor on the machine. `groups` computes the same with 30-bit activations.

mod inputs;
mod machine;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::array;

use pulp::NullaryFnOnce;

pub(super) use self::inputs::Inputs;
use self::machine::{Machine, Portable};
use self::tiles::{Tiles, of_pieces, whole};
use super::prefetch::prefetch;
use super::weight::Matrix;

/// Bytes of weights that are prefetched.
const AHEAD: usize = 2048;
/// Rows of the input from which on a row of the weight is decoded into memory.
const MANY: usize = 9;

/// `out[a][b] = weight[first + a] . input[b]`: the weight has blocks, out is (_, rows).
pub(super) fn multiply(weight: &Matrix, first: usize, inputs: &Inputs, out: &mut [f32]) {
    // `$together` rows share a decoded block in a step; `$a` rows of the weight share `$b` of a prompt.
    macro_rules! with {
        ($machine:expr, $run:expr, $together:literal, $a:literal, $b:literal) => {
            if inputs.rows() < MANY {
                $run(Products::<_, $together> {
                    machine: $machine,
                    weight,
                    first,
                    inputs,
                    out,
                })
            } else {
                $run(Tiles::<_, $a, $b> {
                    machine: $machine,
                    weight,
                    first,
                    inputs,
                    out,
                })
            }
        };
    }
    // The numbers are those of the machine's registers.
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(machine) = pulp::x86::V4::try_new() {
            return with!(machine, |run| machine.vectorize(run), 8, 4, 4);
        }
        if let Some(machine) = pulp::x86::V3::try_new() {
            return with!(machine, |run| machine.vectorize(run), 2, 2, 2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(machine) = pulp::aarch64::Neon::try_new() {
        return with!(machine, |run| machine.vectorize(run), 4, 2, 3);
    }
    with!(Portable, NullaryFnOnce::call, 1, 1, 1)
}

/// Some rows of a weight with all rows of the input, `TOGETHER` of them at a time.
struct Products<'a, M, const TOGETHER: usize> {
    machine: M,
    weight: &'a Matrix,
    first: usize,
    inputs: &'a Inputs,
    out: &'a mut [f32],
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
            let (several, others) = out.as_chunks_mut::<TOGETHER>();
            let alone = several.len() * TOGETHER;
            for (index, out) in several.iter_mut().enumerate() {
                *out = products(machine, (weight, row), inputs, index * TOGETHER);
            }
            for (index, out) in others.iter_mut().enumerate() {
                [*out] = products(machine, (weight, row), inputs, alone + index);
            }
        }
    }
}

/// Multiplies a row of the weight with `R` rows of the input.
#[inline(always)]
fn products<M: Machine, const R: usize>(
    machine: M,
    (weight, row): (&Matrix, usize),
    inputs: &Inputs,
    first: usize,
) -> [f32; R] {
    let mut spans: [_; R] = array::from_fn(|r| inputs.row(first + r));
    let mut totals = [machine.zeros(); R];
    let mut added = [machine.zeros(); R];
    weight.spans(
        row,
        #[inline(always)]
        |span| {
            let of: [_; R] = array::from_fn(
                #[inline(always)]
                |r| spans[r].next(span.integers.len()),
            );
            let mut sums = [machine.no_sums(); R];
            let pieces = span.scales.as_chunks::<2>().0;
            let all = span.integers.as_chunks().0;
            for (at, (integers, scales)) in all.iter().zip(pieces).enumerate() {
                let mut weights = machine.weights(integers);
                if all.len() > 1 {
                    weights = machine.scaled(weights, *scales);
                }
                for r in 0..R {
                    if let Some(columns) = of[r].columns.get(at) {
                        sums[r] = machine.add(weights, columns, sums[r]);
                    }
                }
            }
            for r in 0..R {
                totals[r] = machine.total(sums[r], span.scale * of[r].unit, totals[r]);
            }
            if let Some(addends) = &span.addends {
                for r in 0..R {
                    let pieces = of_pieces(of[r].sums);
                    added[r] = machine.multiply_add(addends, &pieces, added[r]);
                }
            }
        },
    );
    array::from_fn(|r| whole(machine, totals[r], added[r]))
}
