//! Products of a step's rows with weights whose blocks are integers and scales, computed in integers.
//!
//! A row of the input becomes 30-bit integers with a common unit: each value is rounded to 2^-30 of the greatest. An
//! integer is split into two halves of 15 bits, so that products with a group of weights are exact, and are scaled
//! once.
//!
//! There are eight partial sums, each of two neighbouring columns in sixteen. The bits of a product therefore depend
//! neither on the number of rows nor on the machine.

mod machine;

use std::array;

use pulp::NullaryFnOnce;

use self::machine::{COLUMNS, HALF, Machine, Portable};
use super::dots::{eight_in_pairs, sixteen_in_pairs};
use super::prefetch::prefetch;
use super::weight::Matrix;

/// Columns whose sum a block's minimum multiplies.
const GROUP: usize = 32;
/// The greatest integer whose halves are signed 16-bit numbers.
#[allow(clippy::cast_precision_loss)] // fifteen bits and zeros
const MOST: f32 = (32_767 * HALF) as f32;
/// 1.5 times 2^52: after an addition, the low bits of the sum hold the rounded number.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Bytes of weights that are prefetched.
const AHEAD: usize = 2048;
/// Rows of the input that are multiplied with a group while it is in registers.
const TOGETHER: usize = 4;

/// `out[a][b] = weight[first + a] . input[b]`: the weight has groups, out is (_, rows).
pub(super) fn multiply(weight: &Matrix, first: usize, inputs: &Inputs, out: &mut [f32]) {
    macro_rules! products {
        ($machine:expr, $together:expr) => {
            Products::<_, $together> {
                machine: $machine,
                weight,
                first,
                inputs,
                out,
            }
        };
    }
    // `dispatch` would also compile the portable version for machines with their own. This code is the slowest part of
    // the library to compile, so the remaining machines multiply one row at a time.
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(machine) = pulp::x86::V4::try_new() {
            return machine.vectorize(products!(machine, TOGETHER));
        }
        if let Some(machine) = pulp::x86::V3::try_new() {
            return machine.vectorize(products!(machine, TOGETHER));
        }
        products!(Portable, 1).call();
    }
    #[cfg(not(target_arch = "x86_64"))]
    pulp::Arch::new().dispatch(products!(Portable, TOGETHER));
}

/// Rows of the input as integers.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// (rows, columns / GROUP)
    groups: Vec<Group>,
    /// The unit of a row's integers; NaN if one of the row's values is not a number.
    units: Vec<f32>,
}

/// Columns of a group of weights, or of two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Group {
    high: [[i16; COLUMNS]; 2],
    low: [[i16; COLUMNS]; 2],
    /// The sum that a block's minimum multiplies.
    sum: f32,
    /// The sums that the minima of two groups of weights multiply.
    sums: [f32; 2],
}

impl Inputs {
    /// Converts rows of `columns`, a multiple of `GROUP`.
    pub(super) fn fill(&mut self, from: &[f32], columns: usize) {
        pulp::Arch::new().dispatch(Filling {
            inputs: self,
            from,
            columns,
        });
    }
}

struct Filling<'a> {
    inputs: &'a mut Inputs,
    from: &'a [f32],
    columns: usize,
}

impl NullaryFnOnce for Filling<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Inputs { groups, units } = self.inputs;
        groups.resize(self.from.len() / GROUP, Group::default());
        units.clear();
        let mut all = groups.iter_mut();
        for row in self.from.chunks_exact(self.columns) {
            let row = row.as_chunks::<GROUP>().0;
            let (mut greatest, mut finite) = ([0.0_f32; GROUP], true);
            for group in row {
                for (greatest, x) in greatest.iter_mut().zip(group) {
                    *greatest = if x.abs() > *greatest {
                        x.abs()
                    } else {
                        *greatest
                    };
                    finite &= x.is_finite();
                }
            }
            let greatest = greatest.into_iter().fold(0.0, f32::max);
            units.push(if finite { greatest / MOST } else { f32::NAN });
            // Values that are not finite or almost zero become zero.
            let by = MOST / greatest;
            let by = if finite && by.is_finite() { by } else { 0.0 };
            // The row is first in the zip, so that no element of `all` is lost at its end.
            for (group, to) in row.iter().zip(all.by_ref()) {
                let Group {
                    high,
                    low,
                    sum,
                    sums,
                } = to;
                let both = high
                    .as_flattened_mut()
                    .iter_mut()
                    .zip(low.as_flattened_mut());
                for ((high, low), x) in both.zip(group) {
                    let integer = if finite { x * by } else { 0.0 };
                    // The addition rounds, and the low bits hold the result. Vectors have no other rounding without a
                    // check.
                    #[allow(clippy::cast_possible_truncation)] // at most `MOST`
                    let integer = (f64::from(integer) + ROUNDER).to_bits() as i32;
                    let upper = (integer + HALF / 2) >> 15;
                    #[allow(clippy::cast_possible_truncation)] // fifteen bits and a sign
                    {
                        *high = upper as i16;
                        *low = (integer - upper * HALF) as i16;
                    }
                }
                let mut parts = [0.0; GROUP / 2];
                for (i, part) in parts.iter_mut().enumerate() {
                    *part = group[i] + group[i + GROUP / 2];
                }
                *sum = sixteen_in_pairs(&parts);
                for (sum, half) in sums.iter_mut().zip(group.as_chunks().0) {
                    *sum = sixteen_in_pairs(half);
                }
            }
        }
    }
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
        let rows = self.inputs.units.len();
        let Self {
            machine,
            weight,
            first,
            inputs,
            out,
        } = self;
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
    let each = weight.columns() / GROUP;
    let mut groups: [_; R] = array::from_fn(|r| inputs.groups[(first + r) * each..][..each].iter());
    let mut totals = [machine.zeros(); R];
    let mut least = [0.0_f32; R];
    let mut half = 0;
    weight.groups(
        row,
        #[inline(always)]
        |integers, scale, minimum| {
            if let Ok(integers) = integers.try_into() {
                let weights = machine.whole(integers);
                for r in 0..R {
                    if let Some(of) = groups[r].next() {
                        totals[r] = machine.add(weights, (&of.high, &of.low), scale, totals[r]);
                        least[r] = minimum.mul_add(of.sum, least[r]);
                    }
                }
            } else if let [half_of_a_group] = integers.as_chunks().0 {
                let weights = machine.half(half_of_a_group);
                for r in 0..R {
                    if let Some(of) = groups[r].as_slice().first() {
                        let inputs = (&of.high[half], &of.low[half]);
                        totals[r] = machine.add_half(weights, inputs, scale, totals[r]);
                        least[r] = minimum.mul_add(of.sums[half], least[r]);
                    }
                    if half == 1 {
                        groups[r].next();
                    }
                }
                half = 1 - half;
            }
        },
    );
    array::from_fn(|r| {
        let parts = machine.numbers(totals[r]);
        inputs.units[first + r].mul_add(eight_in_pairs(&parts), least[r])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_converted_independently() {
        let mut random = fastrand::Rng::with_seed(2);
        let rows: Vec<f32> = (0..3 * 64).map(|_| random.f32() - 0.5).collect();
        let (mut together, mut alone) = (Inputs::default(), Inputs::default());
        together.fill(&rows, 64);
        for (index, row) in rows.chunks_exact(64).enumerate() {
            alone.fill(row, 64);
            assert_eq!(together.groups[2 * index..][..2], alone.groups, "{index}");
            assert_eq!(together.units[index].to_bits(), alone.units[0].to_bits());
        }
    }

    #[test]
    fn integers_are_accurate() {
        let mut random = fastrand::Rng::with_seed(1);
        let row: Vec<f32> = (0..64)
            .map(|_| random.f32() - 0.5)
            .chain([40.0; 32])
            .collect();
        let mut inputs = Inputs::default();
        inputs.fill(&row, row.len());
        let of = |half: fn(&Group) -> &[[i16; COLUMNS]; 2]| -> Vec<i16> {
            let halves = inputs.groups.iter().map(half);
            halves
                .flat_map(|both| both.as_flattened())
                .copied()
                .collect()
        };
        let integers = of(|group| &group.high)
            .into_iter()
            .zip(of(|group| &group.low));
        for ((high, low), x) in integers.zip(&row) {
            let integer = f64::from(high) * f64::from(HALF) + f64::from(low);
            let off = integer * f64::from(inputs.units[0]) - f64::from(*x);
            assert!(off.abs() < 40.0 * 1e-7, "{x} is off by {off}");
        }
    }
}
