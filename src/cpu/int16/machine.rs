//! Multiplication of 16-bit integers on each kind of machine. All of them compute the same bits.

/// Partial sums of a product.
pub(super) const SUMS: usize = 16;

/// Thirty-two columns of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Columns(pub(super) [i16; Self::LEN]);

impl Columns {
    pub(super) const LEN: usize = 2 * SUMS;
    pub(super) const ZEROS: Self = Self([0; Self::LEN]);
}

pub(super) trait Machine: Copy {
    /// Thirty-two weights.
    type Weights: Copy;
    /// Sixteen integers.
    type Sums: Copy;
    /// Sixteen numbers.
    type Totals: Copy;

    fn no_sums(self) -> Self::Sums;

    fn zeros(self) -> Self::Totals;

    fn weights(self, integers: &[i8; Columns::LEN]) -> Self::Weights;

    fn scaled(self, weights: Self::Weights, by: i16) -> Self::Weights;

    /// Multiplies the first sixteen weights by one factor, and the second sixteen by another.
    fn scaled_halves(self, weights: Self::Weights, by: [i16; 2]) -> Self::Weights;

    fn load(self, columns: &Columns) -> Self::Weights;

    fn columns(self, weights: Self::Weights) -> Columns;

    /// `sums[i] + weights[2i] * columns[2i] + weights[2i + 1] * columns[2i + 1]`
    fn add(self, weights: Self::Weights, columns: &Columns, sums: Self::Sums) -> Self::Sums;

    /// `totals + scale * sums`
    fn total(self, sums: Self::Sums, scale: f32, totals: Self::Totals) -> Self::Totals;

    /// `totals + left * right`
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        totals: Self::Totals,
    ) -> Self::Totals;

    fn numbers(self, totals: Self::Totals) -> [f32; SUMS];
}

/// Plain Rust, for other machines: arm64 has NEON in every build, so that the compiler uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Machine for Portable {
    type Weights = [i16; Columns::LEN];
    type Sums = [i32; SUMS];
    type Totals = [f32; SUMS];

    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        [0; SUMS]
    }

    #[inline(always)]
    fn zeros(self) -> Self::Totals {
        [0.0; SUMS]
    }

    #[inline(always)]
    fn weights(self, integers: &[i8; Columns::LEN]) -> Self::Weights {
        let mut weights = [0; Columns::LEN];
        for (weight, integer) in weights.iter_mut().zip(integers) {
            *weight = i16::from(*integer);
        }
        weights
    }

    #[inline(always)]
    fn scaled(self, weights: Self::Weights, by: i16) -> Self::Weights {
        self.scaled_halves(weights, [by; 2])
    }

    #[inline(always)]
    fn scaled_halves(self, mut weights: Self::Weights, by: [i16; 2]) -> Self::Weights {
        for (weights, by) in weights.as_chunks_mut::<SUMS>().0.iter_mut().zip(by) {
            for weight in weights {
                *weight *= by;
            }
        }
        weights
    }

    #[inline(always)]
    fn load(self, columns: &Columns) -> Self::Weights {
        columns.0
    }

    #[inline(always)]
    fn columns(self, weights: Self::Weights) -> Columns {
        Columns(weights)
    }

    #[inline(always)]
    fn add(self, weights: Self::Weights, columns: &Columns, mut sums: Self::Sums) -> Self::Sums {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += i32::from(weights[2 * i]) * i32::from(columns.0[2 * i])
                + i32::from(weights[2 * i + 1]) * i32::from(columns.0[2 * i + 1]);
        }
        sums
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scale: f32, mut totals: Self::Totals) -> Self::Totals {
        for (total, sum) in totals.iter_mut().zip(sums) {
            #[allow(clippy::cast_precision_loss)] // rounded to the nearest, on every machine
            let sum = sum as f32;
            *total = scale.mul_add(sum, *total);
        }
        totals
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        mut totals: Self::Totals,
    ) -> Self::Totals {
        for (total, (left, right)) in totals.iter_mut().zip(left.iter().zip(right)) {
            *total = left.mul_add(*right, *total);
        }
        totals
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        totals
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::array;

    use super::*;

    fn totals<M: Machine>(machine: M, random: &mut fastrand::Rng) -> [f32; SUMS] {
        let mut totals = machine.zeros();
        for extreme in [false, true] {
            let mut sums = machine.no_sums();
            for _ in 0..8 {
                // The greatest sum of products, which just fits.
                let most = if extreme { 1.0 } else { random.f32() };
                #[allow(clippy::cast_possible_truncation)] // at most 32767
                let value = |most: f32| (most * 32_767.0) as i16;
                let columns = Columns(array::from_fn(|at| {
                    if extreme || at % 3 == 0 {
                        -value(most)
                    } else {
                        value(most)
                    }
                }));
                let integers = array::from_fn(|_| if extreme { -32 } else { random.i8(-31..=31) });
                let by = if extreme {
                    [-128; 2]
                } else {
                    [random.i16(-31..=31), random.i16(0..=63)]
                };
                let weights = machine.scaled_halves(machine.weights(&integers), by);
                sums = machine.add(weights, &columns, sums);
            }
            totals = machine.total(sums, 0.37, totals);
        }
        let numbers: [[f32; SUMS]; 2] = array::from_fn(|_| array::from_fn(|_| random.f32()));
        machine.numbers(machine.multiply_add(&numbers[0], &numbers[1], totals))
    }

    #[test]
    fn all_machines_give_the_same_bits() {
        for seed in 0..100 {
            let random = || fastrand::Rng::with_seed(seed);
            let portable = totals(Portable, &mut random()).map(f32::to_bits);
            if let Some(machine) = pulp::x86::V3::try_new() {
                assert_eq!(portable, totals(machine, &mut random()).map(f32::to_bits));
            }
            if let Some(machine) = pulp::x86::V4::try_new() {
                assert_eq!(portable, totals(machine, &mut random()).map(f32::to_bits));
            }
        }
    }
}
