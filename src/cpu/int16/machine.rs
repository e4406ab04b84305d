//! Multiplication of 16-bit integers on each kind of machine. All of them compute the same bits.

use crate::quant::{SHORT, Vectors};

/// Partial sums of a product: sum `i` is that of columns `4 i` to `4 i + 3` in each 64.
pub(super) const SUMS: usize = 16;

/// Of 64 columns of a row, those with even numbers or those with odd ones. Bytes become 16-bit integers in these halves
/// by shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Columns(pub(super) [i16; Self::LEN]);

impl Columns {
    pub(super) const LEN: usize = 2 * SUMS;
    pub(super) const ZEROS: Self = Self([0; Self::LEN]);
}

pub(super) trait Machine: Vectors {
    /// Thirty-two weights, in the order of `Columns`.
    type Weights: Copy;
    /// The factors of as many weights.
    type Factors: Copy;
    /// Sixteen integers.
    type Sums: Copy;
    /// Sixteen numbers.
    type Totals: Copy;
    /// Four numbers.
    type Four: Copy;

    fn no_sums(self) -> Self::Sums;

    fn zeros(self) -> Self::Totals;

    /// The integers with even numbers, and those with odd ones.
    fn weights(self, integers: Self::Bytes, signed: bool) -> [Self::Weights; 2];

    /// The factors of columns from `64 * at` on, in groups of 16 or 32 `columns`.
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors;

    fn scaled(self, integers: Self::Bytes, by: Self::Factors) -> [Self::Weights; 2];

    fn loaded(self, columns: &Columns) -> Self::Weights;

    fn columns(self, weights: Self::Weights) -> Columns;

    /// `sums[i] + weights[2i] * columns[2i] + weights[2i + 1] * columns[2i + 1]`
    fn add(self, weights: Self::Weights, columns: &Columns, sums: Self::Sums) -> Self::Sums;

    fn both(self, left: Self::Sums, right: Self::Sums) -> Self::Sums;

    /// `totals + scale * sums`
    fn total(self, sums: Self::Sums, scale: f32, totals: Self::Totals) -> Self::Totals;

    /// `-minimum * minima`
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> [f32; SUMS];

    /// `totals + left * right`
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        totals: Self::Totals,
    ) -> Self::Totals;

    /// The sum of all: both in one, then in pairs, as `dots` does.
    fn whole(self, left: Self::Totals, right: Self::Totals) -> f32;

    fn four(self, numbers: &[f32; SHORT]) -> Self::Four;

    fn times(self, left: Self::Four, right: Self::Four) -> Self::Four;

    /// `sums + left * right`
    fn multiply_add_four(self, left: Self::Four, right: Self::Four, sums: Self::Four)
    -> Self::Four;

    /// `totals + scales * sums`: the first half has scale `2 * at`, the second one the next.
    fn total_of_two(
        self,
        sums: Self::Sums,
        scales: Self::Four,
        at: usize,
        totals: Self::Totals,
    ) -> Self::Totals;

    /// The sum in pairs.
    fn sum_of_four(self, four: Self::Four) -> f32;
}
