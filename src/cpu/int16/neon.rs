//! The machine of arm64. A vector has half of the columns that AVX2's has.

use core::arch::aarch64::{float32x4_t, int8x16_t, int16x8_t, int32x4_t};
use std::array;

use pulp::aarch64::Neon;
use pulp::cast;

use super::machine::{Columns, Machine, SUMS};

impl Machine for Neon {
    type Weights = [int16x8_t; 4];
    type Sums = [int32x4_t; 4];
    type Totals = [float32x4_t; 4];

    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        cast([0_i32; SUMS])
    }

    #[inline(always)]
    fn zeros(self) -> Self::Totals {
        cast([0.0_f32; SUMS])
    }

    #[inline(always)]
    fn weights(self, integers: &[i8; Columns::LEN]) -> Self::Weights {
        let [first, second]: [int8x16_t; 2] = cast(*integers);
        let low = |of| self.neon.vmovl_s8(self.neon.vget_low_s8(of));
        let high = |of| self.neon.vmovl_high_s8(of);
        [low(first), high(first), low(second), high(second)]
    }

    #[inline(always)]
    fn scaled(self, weights: Self::Weights, by: i16) -> Self::Weights {
        self.scaled_halves(weights, [by; 2])
    }

    #[inline(always)]
    fn scaled_halves(self, weights: Self::Weights, by: [i16; 2]) -> Self::Weights {
        array::from_fn(
            #[inline(always)]
            |at| self.neon.vmulq_n_s16(weights[at], by[at / 2]),
        )
    }

    #[inline(always)]
    fn load(self, columns: &Columns) -> Self::Weights {
        cast(columns.0)
    }

    #[inline(always)]
    fn columns(self, weights: Self::Weights) -> Columns {
        Columns(cast(weights))
    }

    #[inline(always)]
    fn add(self, weights: Self::Weights, columns: &Columns, sums: Self::Sums) -> Self::Sums {
        let columns: [int16x8_t; 4] = cast(columns.0);
        array::from_fn(
            #[inline(always)]
            |at| {
                let (weights, columns) = (weights[at], columns[at]);
                let low = |of| self.neon.vget_low_s16(of);
                let first = self.neon.vmull_s16(low(weights), low(columns));
                let second = self.neon.vmull_high_s16(weights, columns);
                let pairs = self.neon.vpaddq_s32(first, second);
                self.neon.vaddq_s32(sums[at], pairs)
            },
        )
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scale: f32, totals: Self::Totals) -> Self::Totals {
        array::from_fn(
            #[inline(always)]
            |at| {
                let sums = self.neon.vcvtq_f32_s32(sums[at]);
                self.neon.vfmaq_n_f32(totals[at], sums, scale)
            },
        )
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        totals: Self::Totals,
    ) -> Self::Totals {
        let (left, right): (Self::Totals, Self::Totals) = (cast(*left), cast(*right));
        array::from_fn(
            #[inline(always)]
            |at| self.neon.vfmaq_f32(totals[at], left[at], right[at]),
        )
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        cast(totals)
    }
}
