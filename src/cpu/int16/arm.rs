//! NEON, with four vectors of each kind.
//!
//! A vector of sixteen bytes has its columns in the order of `ORDER`, so that its halves widen to the vectors of both
//! `Columns`. The lower half of such a vector has the first columns of four pairs, and the upper half their second ones:
//! both are multiplied and added to the same four sums, each by an instruction.

use core::arch::aarch64::{float32x4_t, int8x16_t, int16x8_t, int32x4_t, uint8x16_t};

use pulp::aarch64::Neon;
use pulp::cast;

use super::machine::{Columns, Machine, Pairs, SUMS, sum_of_four};
use super::portable::Portable;
use crate::quant::{SHORT, Vectors};

/// The column of each byte of a vector: those with even numbers first.
const ORDER: [u8; 16] = {
    let mut order = [0; 16];
    let mut column = 0;
    while column < 16 {
        #[allow(clippy::cast_possible_truncation)] // below 16
        let byte = column as u8;
        order[column % 2 * 8 + Columns::place(column / 2)] = byte;
        column += 1;
    }
    order
};

/// For both vectors of 32 bits, the byte with the bit of each column.
const BYTES: [[u8; 16]; 2] = {
    let mut bytes = [[0; 16]; 2];
    let mut at = 0;
    while at < 16 {
        bytes[0][at] = ORDER[at] / 8;
        bytes[1][at] = ORDER[at] / 8 + 2;
        at += 1;
    }
    bytes
};

/// The bit of each column in its byte.
const BITS: [u8; 16] = {
    let mut bits = [0; 16];
    let mut at = 0;
    while at < 16 {
        bits[at] = 1 << (ORDER[at] % 8);
        at += 1;
    }
    bits
};

#[inline(always)]
fn ordered(machine: Neon, bytes: [u8; 16]) -> uint8x16_t {
    machine.neon.vqtbl1q_u8(cast(bytes), cast(ORDER))
}

/// Masks bytes, of which the bits of `clear` are clear.
#[inline(always)]
fn masked(machine: Neon, bytes: uint8x16_t, clear: u8, mask: u8) -> uint8x16_t {
    if mask | clear == u8::MAX {
        bytes
    } else {
        machine.neon.vandq_u8(bytes, cast([mask; 16]))
    }
}

impl Vectors for Neon {
    type Bytes = [uint8x16_t; 4];

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Bytes {
        let quarters: [[u8; 16]; 4] = cast(*bytes);
        quarters.map(|quarter| ordered(self, quarter))
    }

    #[inline(always)]
    fn join(self, first: &[u8; 32], second: &[u8; 32]) -> Self::Bytes {
        self.load(&cast([*first, *second]))
    }

    #[inline(always)]
    fn double(self, first: &[u8; 16], second: &[u8; 16]) -> Self::Bytes {
        let [first, second] = [ordered(self, *first), ordered(self, *second)];
        [first, first, second, second]
    }

    #[inline(always)]
    fn left(self, mut bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        for (quarter, by) in bytes.iter_mut().zip(by) {
            if by > 0 {
                let places = self.neon.vdupq_n_s8(by.to_le_bytes()[0].cast_signed());
                *quarter = self.neon.vshlq_u8(*quarter, places);
            }
            *quarter = masked(self, *quarter, !(u8::MAX << by), mask);
        }
        bytes
    }

    #[inline(always)]
    fn right(self, mut bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        for (quarter, by) in bytes.iter_mut().zip(by) {
            if by > 0 {
                let places = self.neon.vdupq_n_s8(-by.to_le_bytes()[0].cast_signed());
                *quarter = self.neon.vshlq_u8(*quarter, places);
            }
            *quarter = masked(self, *quarter, !(u8::MAX >> by), mask);
        }
        bytes
    }

    #[inline(always)]
    fn or(self, mut left: Self::Bytes, right: Self::Bytes) -> Self::Bytes {
        for (left, right) in left.iter_mut().zip(right) {
            *left = self.neon.vorrq_u8(*left, right);
        }
        left
    }

    #[inline(always)]
    fn subtract(self, bytes: Self::Bytes, by: u8) -> Self::Bytes {
        bytes.map(|quarter| self.neon.vsubq_u8(quarter, cast([by; 16])))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indexes: Self::Bytes) -> Self::Bytes {
        indexes.map(|quarter| self.neon.vqtbl1q_u8(cast(*table), quarter))
    }

    #[inline(always)]
    fn spread(self, [first, second]: [u32; 2], value: u8) -> Self::Bytes {
        let spread = |bits: u32, at: usize| {
            let bytes = self.neon.vqtbl1q_u8(cast([bits; 4]), cast(BYTES[at]));
            let set = self.neon.vtstq_u8(bytes, cast(BITS));
            masked(self, set, 0, value)
        };
        [
            spread(first, 0),
            spread(first, 1),
            spread(second, 0),
            spread(second, 1),
        ]
    }

    #[inline(always)]
    fn negate(self, mut bytes: Self::Bytes, bits: [u32; 2]) -> Self::Bytes {
        for (quarter, mask) in bytes.iter_mut().zip(self.spread(bits, u8::MAX)) {
            let flipped = self.neon.veorq_u8(*quarter, mask);
            *quarter = self.neon.vsubq_u8(flipped, mask);
        }
        bytes
    }

    #[inline(always)]
    fn halves(self, words: [u64; 2]) -> [f32; 8] {
        Portable.halves(words)
    }
}

impl Machine for Neon {
    type Weights = [int16x8_t; 4];
    type Factors = [int8x16_t; 4];
    type Sums = [int32x4_t; 4];
    type Totals = [float32x4_t; 4];

    const ONE_CHAIN: bool = true;

    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        [self.neon.vdupq_n_s32(0); 4]
    }

    #[inline(always)]
    fn zeros(self) -> Self::Totals {
        self.splat(0.0)
    }

    #[inline(always)]
    fn weights(self, integers: Self::Bytes, signed: bool) -> [Self::Weights; 2] {
        let even = |bytes| {
            if signed {
                let low = self.neon.vget_low_s8(cast(bytes));
                self.neon.vmovl_s8(low)
            } else {
                cast(self.neon.vmovl_u8(self.neon.vget_low_u8(bytes)))
            }
        };
        let odd = |bytes| {
            if signed {
                self.neon.vmovl_high_s8(cast(bytes))
            } else {
                cast(self.neon.vmovl_high_u8(bytes))
            }
        };
        [integers.map(even), integers.map(odd)]
    }

    #[inline(always)]
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors {
        [0, 1, 2, 3].map(|quarter| {
            let scale = scales[(64 * at + 16 * quarter) / columns];
            self.neon.vdupq_n_s8(scale)
        })
    }

    #[inline(always)]
    fn scaled(self, integers: Self::Bytes, by: Self::Factors) -> [Self::Weights; 2] {
        let mut weights = self.weights(integers, true);
        for (at, (bytes, by)) in integers.into_iter().zip(by).enumerate() {
            let low = self.neon.vget_low_s8(cast(bytes));
            weights[0][at] = self.neon.vmull_s8(low, self.neon.vget_low_s8(by));
            weights[1][at] = self.neon.vmull_high_s8(cast(bytes), by);
        }
        weights
    }

    #[inline(always)]
    fn pairs(self, weights: Self::Weights) -> Pairs {
        Columns(cast(weights)).pairs()
    }

    #[inline(always)]
    fn repeated(self, pair: i32) -> Self::Weights {
        let pair = self.neon.vget_low_s16(cast(self.neon.vdupq_n_s32(pair)));
        let first = self.neon.vdup_lane_s16::<0>(pair);
        let second = self.neon.vdup_lane_s16::<1>(pair);
        [self.neon.vcombine_s16(first, second); 4]
    }

    #[inline(always)]
    fn add(self, weights: Self::Weights, columns: &Columns, mut sums: Self::Sums) -> Self::Sums {
        let columns: [int16x8_t; 4] = cast(columns.0);
        for (sum, (columns, weights)) in sums.iter_mut().zip(columns.into_iter().zip(weights)) {
            let first = self.neon.vget_low_s16(columns);
            let weight = self.neon.vget_low_s16(weights);
            *sum = self.neon.vmlal_s16(*sum, first, weight);
            *sum = self.neon.vmlal_high_s16(*sum, columns, weights);
        }
        sums
    }

    #[inline(always)]
    fn both(self, mut left: Self::Sums, right: Self::Sums) -> Self::Sums {
        for (left, right) in left.iter_mut().zip(right) {
            *left = self.neon.vaddq_s32(*left, right);
        }
        left
    }

    #[inline(always)]
    fn quarters(self, [a, b, c, d]: Self::Sums) -> [i32; SHORT] {
        let [left, right] = [self.neon.vaddq_s32(a, b), self.neon.vaddq_s32(c, d)];
        cast(self.neon.vaddq_s32(left, right))
    }

    #[inline(always)]
    fn of_blocks(self, sums: [Self::Sums; 2]) -> [i32; SHORT] {
        let [first, second] = sums.map(|[a, b, c, d]| {
            let [left, right] = [self.neon.vaddq_s32(a, b), self.neon.vaddq_s32(c, d)];
            self.neon.vpaddq_s32(left, right)
        });
        cast(self.neon.vpaddq_s32(first, second))
    }

    #[inline(always)]
    fn multiply(self, left: &[f32; SUMS], right: f32) -> Self::Totals {
        self.totals(left)
            .map(|left| self.neon.vmulq_n_f32(left, right))
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scales: Self::Totals, totals: Self::Totals) -> Self::Totals {
        let sums = sums.map(|sums| self.neon.vcvtq_f32_s32(sums));
        self.multiply_add(scales, sums, totals)
    }

    #[inline(always)]
    fn splat(self, number: f32) -> Self::Totals {
        [self.neon.vdupq_n_f32(number); 4]
    }

    #[inline(always)]
    fn totals(self, numbers: &[f32; SUMS]) -> Self::Totals {
        cast(*numbers)
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        cast(totals)
    }

    #[inline(always)]
    fn plus(self, mut left: Self::Totals, right: Self::Totals) -> Self::Totals {
        for (left, right) in left.iter_mut().zip(right) {
            *left = self.neon.vaddq_f32(*left, right);
        }
        left
    }

    #[inline(always)]
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> Self::Totals {
        let minima: uint8x16_t = cast(*minima);
        let low = self.neon.vmovl_u8(self.neon.vget_low_u8(minima));
        let high = self.neon.vmovl_high_u8(minima);
        [
            self.neon.vmovl_u16(self.neon.vget_low_u16(low)),
            self.neon.vmovl_high_u16(low),
            self.neon.vmovl_u16(self.neon.vget_low_u16(high)),
            self.neon.vmovl_high_u16(high),
        ]
        .map(|minima| {
            let minima = self.neon.vcvtq_f32_u32(minima);
            self.neon.vmulq_n_f32(minima, -minimum)
        })
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: Self::Totals,
        right: Self::Totals,
        mut totals: Self::Totals,
    ) -> Self::Totals {
        for (total, (left, right)) in totals.iter_mut().zip(left.into_iter().zip(right)) {
            *total = self.neon.vfmaq_f32(*total, left, right);
        }
        totals
    }

    #[inline(always)]
    fn whole(self, [a, b, c, d]: Self::Totals) -> f32 {
        let [left, right] = [self.neon.vaddq_f32(a, c), self.neon.vaddq_f32(b, d)];
        sum_of_four(cast(self.neon.vaddq_f32(left, right)))
    }
}
