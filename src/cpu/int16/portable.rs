//! Plain Rust, for machines without code of their own. Tests compare the others with it.

use super::machine::{Columns, Machine, Pairs, SUMS};
use crate::cpu::dots::sixteen_in_pairs;
use crate::quant::{SHORT, Vectors, half};

#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Vectors for Portable {
    type Bytes = [u8; 64];

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Bytes {
        *bytes
    }

    #[inline(always)]
    fn join(self, first: &[u8; 32], second: &[u8; 32]) -> Self::Bytes {
        pulp::cast([*first, *second])
    }

    #[inline(always)]
    fn double(self, first: &[u8; 16], second: &[u8; 16]) -> Self::Bytes {
        pulp::cast([*first, *first, *second, *second])
    }

    #[inline(always)]
    fn left(self, mut bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        for (quarter, by) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(by) {
            for byte in quarter {
                *byte = *byte << by & mask;
            }
        }
        bytes
    }

    #[inline(always)]
    fn right(self, mut bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        for (quarter, by) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(by) {
            for byte in quarter {
                *byte = *byte >> by & mask;
            }
        }
        bytes
    }

    #[inline(always)]
    fn or(self, mut left: Self::Bytes, right: Self::Bytes) -> Self::Bytes {
        for (left, right) in left.iter_mut().zip(right) {
            *left |= right;
        }
        left
    }

    #[inline(always)]
    fn subtract(self, mut bytes: Self::Bytes, by: u8) -> Self::Bytes {
        for byte in &mut bytes {
            *byte = byte.wrapping_sub(by);
        }
        bytes
    }

    /// Selects bit by bit: without a table, vectors of bytes are computed at once.
    #[inline(always)]
    fn look_up(self, table: &[i8; 16], mut indexes: Self::Bytes) -> Self::Bytes {
        for index in &mut indexes {
            let mut left = *table;
            for bit in 0..4 {
                let mask = 0_i8.wrapping_sub((*index >> bit & 1).cast_signed());
                for at in 0..8 >> bit {
                    let (clear, set) = (left[2 * at], left[2 * at + 1]);
                    left[at] = clear ^ (clear ^ set) & mask;
                }
            }
            *index = left[0].cast_unsigned();
        }
        indexes
    }

    #[inline(always)]
    fn spread(self, bits: [u32; 2], value: u8) -> Self::Bytes {
        let mut bytes = [0; 64];
        for (half, bits) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(bits) {
            for (i, byte) in half.iter_mut().enumerate() {
                *byte = value * (bits >> i & 1).to_le_bytes()[0];
            }
        }
        bytes
    }

    #[inline(always)]
    fn negate(self, mut bytes: Self::Bytes, bits: [u32; 2]) -> Self::Bytes {
        for (byte, mask) in bytes.iter_mut().zip(self.spread(bits, 0xff)) {
            *byte = (*byte ^ mask).wrapping_sub(mask);
        }
        bytes
    }

    #[inline(always)]
    fn halves(self, words: [u64; 2]) -> [f32; 8] {
        let mut values = [0.0; 8];
        for (i, value) in values.iter_mut().enumerate() {
            #[allow(clippy::cast_possible_truncation)] // one half
            let bits = (words[i / 4] >> (16 * (i % 4))) as u16;
            *value = half(u32::from(bits));
        }
        values
    }
}

impl Machine for Portable {
    type Weights = [i16; Columns::LEN];
    type Factors = [i16; Columns::LEN];
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
    fn weights(self, integers: Self::Bytes, _: bool) -> [Self::Weights; 2] {
        let mut weights = [[0; Columns::LEN]; 2];
        for (i, pair) in integers.as_chunks::<2>().0.iter().enumerate() {
            let at = Columns::place(i);
            weights[0][at] = i16::from(pair[0].cast_signed());
            weights[1][at] = i16::from(pair[1].cast_signed());
        }
        weights
    }

    #[inline(always)]
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors {
        let mut factors = [0; Columns::LEN];
        for i in 0..Columns::LEN {
            factors[Columns::place(i)] = i16::from(scales[(64 * at + 2 * i) / columns]);
        }
        factors
    }

    #[inline(always)]
    fn scaled(self, integers: Self::Bytes, by: Self::Factors) -> [Self::Weights; 2] {
        let mut weights = self.weights(integers, true);
        for half in &mut weights {
            for (weight, by) in half.iter_mut().zip(by) {
                *weight *= by;
            }
        }
        weights
    }

    #[inline(always)]
    fn repeated(self, pair: i32) -> Self::Weights {
        Columns::of_pairs([pair; SUMS]).0
    }

    #[inline(always)]
    fn pairs(self, weights: Self::Weights) -> Pairs {
        Columns(weights).pairs()
    }

    #[inline(always)]
    fn add(self, weights: Self::Weights, columns: &Columns, mut sums: Self::Sums) -> Self::Sums {
        for (i, sum) in sums.iter_mut().enumerate() {
            let [first, second] = [Columns::place(2 * i), Columns::place(2 * i + 1)];
            *sum += i32::from(weights[first]) * i32::from(columns.0[first])
                + i32::from(weights[second]) * i32::from(columns.0[second]);
        }
        sums
    }

    #[inline(always)]
    fn both(self, mut left: Self::Sums, right: Self::Sums) -> Self::Sums {
        for (left, right) in left.iter_mut().zip(right) {
            *left += right;
        }
        left
    }

    #[inline(always)]
    fn quarters(self, sums: Self::Sums) -> [i32; SHORT] {
        let mut quarters = [0; SHORT];
        for sums in sums.as_chunks::<SHORT>().0 {
            for (quarter, sum) in quarters.iter_mut().zip(sums) {
                *quarter += sum;
            }
        }
        quarters
    }

    #[inline(always)]
    fn of_blocks(self, sums: [Self::Sums; 2]) -> [i32; SHORT] {
        let blocks: [[i32; SUMS / 2]; SHORT] = pulp::cast(sums);
        blocks.map(|sums| sums.into_iter().sum())
    }

    #[inline(always)]
    fn multiply(self, left: &[f32; SUMS], right: f32) -> Self::Totals {
        left.map(|left| left * right)
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scales: Self::Totals, totals: Self::Totals) -> Self::Totals {
        #[allow(clippy::cast_precision_loss)] // rounded to the nearest, on every machine
        let sums = sums.map(|sum| sum as f32);
        self.multiply_add(scales, sums, totals)
    }

    #[inline(always)]
    fn splat(self, number: f32) -> Self::Totals {
        [number; SUMS]
    }

    #[inline(always)]
    fn totals(self, numbers: &[f32; SUMS]) -> Self::Totals {
        *numbers
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        totals
    }

    #[inline(always)]
    fn plus(self, mut left: Self::Totals, right: Self::Totals) -> Self::Totals {
        for (left, right) in left.iter_mut().zip(right) {
            *left += right;
        }
        left
    }

    #[inline(always)]
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> Self::Totals {
        minima.map(|integer| -minimum * f32::from(integer))
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: Self::Totals,
        right: Self::Totals,
        mut totals: Self::Totals,
    ) -> Self::Totals {
        for (total, (left, right)) in totals.iter_mut().zip(left.into_iter().zip(right)) {
            *total = left.mul_add(right, *total);
        }
        totals
    }

    #[inline(always)]
    fn whole(self, totals: Self::Totals) -> f32 {
        sixteen_in_pairs(&totals)
    }
}
