//! Multiplication of 16-bit integers on each kind of machine. All of them compute the same bits.

use crate::quant::{SHORT, Vectors};

/// Partial sums of a product: sum `i` is that of columns `4 i` to `4 i + 3` in each 64.
pub(super) const SUMS: usize = 16;

/// Of 64 columns of a row, those with even numbers or those with odd ones. Bytes become 16-bit integers in these halves
/// by shifts. The order is that of `place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Columns(pub(super) [i16; Self::LEN]);

impl Columns {
    pub(super) const LEN: usize = 2 * SUMS;
    pub(super) const ZEROS: Self = Self([0; Self::LEN]);
    /// Whether the columns of a pair are neighbours. x86 adds the products of neighbours. NEON multiplies the halves of
    /// a vector one after the other: there, four pairs have their first columns before their second ones.
    const NEIGHBOURS: bool = !cfg!(target_arch = "aarch64");

    /// The place of a column. Two columns after one another are a pair.
    #[inline(always)]
    pub(super) const fn place(column: usize) -> usize {
        if Self::NEIGHBOURS {
            column
        } else {
            column / 8 * 8 + column % 2 * 4 + column % 8 / 2
        }
    }

    #[inline(always)]
    pub(super) fn of_pairs(pairs: Pairs) -> Self {
        let of_pairs: [i16; Self::LEN] = pulp::cast(pairs);
        if Self::NEIGHBOURS {
            return Self(of_pairs);
        }
        let mut columns = Self::ZEROS;
        for (column, integer) in of_pairs.into_iter().enumerate() {
            columns.0[Self::place(column)] = integer;
        }
        columns
    }

    #[inline(always)]
    pub(super) fn pairs(self) -> Pairs {
        if Self::NEIGHBOURS {
            return pulp::cast(self.0);
        }
        let mut pairs = [0; Self::LEN];
        for (column, integer) in pairs.iter_mut().enumerate() {
            *integer = self.0[Self::place(column)];
        }
        pulp::cast(pairs)
    }
}

/// `Columns` two at a time: those with even numbers or those with odd ones.
pub(super) type Pairs = [i32; SUMS];

pub(super) trait Machine: Vectors {
    /// Thirty-two weights, in the order of `Columns`.
    type Weights: Copy;
    /// The factors of as many weights.
    type Factors: Copy;
    /// Sixteen integers.
    type Sums: Copy;
    /// Sixteen numbers.
    type Totals: Copy;

    /// Whether all columns are added to the same sums, because the machine has few registers, and no addition waits for
    /// the one before.
    const ONE_CHAIN: bool = false;

    fn no_sums(self) -> Self::Sums;

    fn zeros(self) -> Self::Totals;

    /// The integers with even numbers, and those with odd ones.
    fn weights(self, integers: Self::Bytes, signed: bool) -> [Self::Weights; 2];

    /// The factors of columns from `64 * at` on, in groups of 16 or 32 `columns`.
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors;

    fn scaled(self, integers: Self::Bytes, by: Self::Factors) -> [Self::Weights; 2];

    fn pairs(self, weights: Self::Weights) -> Pairs;

    /// The same pair in each place.
    fn repeated(self, pair: i32) -> Self::Weights;

    /// Adds the products of pair `i` to sum `i`.
    fn add(self, weights: Self::Weights, columns: &Columns, sums: Self::Sums) -> Self::Sums;

    fn both(self, left: Self::Sums, right: Self::Sums) -> Self::Sums;

    /// Sum `i` is that of each fourth sum from `i` on.
    fn quarters(self, sums: Self::Sums) -> [i32; SHORT];

    /// The sums of four blocks, each of which has half of the sums of 64 columns.
    fn of_blocks(self, sums: [Self::Sums; 2]) -> [i32; SHORT];

    /// `left * right`
    fn multiply(self, left: &[f32; SUMS], right: f32) -> Self::Totals;

    /// `totals + scales * sums`
    fn total(self, sums: Self::Sums, scales: Self::Totals, totals: Self::Totals) -> Self::Totals;

    /// The same number in each place.
    fn splat(self, number: f32) -> Self::Totals;

    fn totals(self, numbers: &[f32; SUMS]) -> Self::Totals;

    fn numbers(self, totals: Self::Totals) -> [f32; SUMS];

    fn plus(self, left: Self::Totals, right: Self::Totals) -> Self::Totals;

    /// `-minimum * minima`
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> Self::Totals;

    /// `totals + left * right`
    fn multiply_add(
        self,
        left: Self::Totals,
        right: Self::Totals,
        totals: Self::Totals,
    ) -> Self::Totals;

    /// The sum in pairs, as `dots` does.
    fn whole(self, totals: Self::Totals) -> f32;
}

#[inline(always)]
pub(super) fn sum_of_four([a, b, c, d]: [f32; SHORT]) -> f32 {
    (a + c) + (b + d)
}
