//! The machines of x86-64.

use core::arch::x86_64::{__m256i, __m512, __m512i};

use pulp::cast;
use pulp::x86::{V3, V4};
use pulp::{f32x8, i16x16, i32x8};

use super::machine::{Columns, Machine, SUMS};

/// AVX2: two vectors of each.
impl Machine for V3 {
    type Weights = [i16x16; 2];
    type Sums = [i32x8; 2];
    type Totals = [f32x8; 2];

    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        [self.splat_i32x8(0); 2]
    }

    #[inline(always)]
    fn zeros(self) -> Self::Totals {
        [self.splat_f32x8(0.0); 2]
    }

    #[inline(always)]
    fn weights(self, integers: &[i8; Columns::LEN]) -> Self::Weights {
        let halves = integers.as_chunks::<16>().0;
        [
            self.convert_i8x16_to_i16x16(cast(halves[0])),
            self.convert_i8x16_to_i16x16(cast(halves[1])),
        ]
    }

    #[inline(always)]
    fn scaled(self, weights: Self::Weights, by: i16) -> Self::Weights {
        self.scaled_halves(weights, [by; 2])
    }

    #[inline(always)]
    fn scaled_halves(self, weights: Self::Weights, by: [i16; 2]) -> Self::Weights {
        let times = |half: usize| {
            let by = self.splat_i16x16(by[half]);
            cast(self.avx2._mm256_mullo_epi16(cast(weights[half]), cast(by)))
        };
        [times(0), times(1)]
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
        let columns: [i16x16; 2] = cast(columns.0);
        let plus = |half: usize| {
            let products = self.multiply_wrapping_add_adjacent_i16x16(weights[half], columns[half]);
            cast(self.avx2._mm256_add_epi32(cast(sums[half]), cast(products)))
        };
        [plus(0), plus(1)]
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scale: f32, totals: Self::Totals) -> Self::Totals {
        let scale = self.splat_f32x8(scale);
        let plus = |half: usize| {
            let sums = self.convert_i32x8_to_f32x8(sums[half]);
            self.mul_add_f32x8(scale, sums, totals[half])
        };
        [plus(0), plus(1)]
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        totals: Self::Totals,
    ) -> Self::Totals {
        let (left, right): ([f32x8; 2], [f32x8; 2]) = (cast(*left), cast(*right));
        let plus = |half: usize| self.mul_add_f32x8(left[half], right[half], totals[half]);
        [plus(0), plus(1)]
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        cast(totals)
    }
}

/// AVX-512: one vector of each.
impl Machine for V4 {
    type Weights = __m512i;
    type Sums = __m512i;
    type Totals = __m512;

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
        let integers = cast::<_, __m256i>(*integers);
        self.avx512bw._mm512_cvtepi8_epi16(integers)
    }

    #[inline(always)]
    fn scaled(self, weights: Self::Weights, by: i16) -> Self::Weights {
        let by = self.avx512f._mm512_set1_epi16(by);
        self.avx512bw._mm512_mullo_epi16(weights, by)
    }

    #[inline(always)]
    fn scaled_halves(self, weights: Self::Weights, by: [i16; 2]) -> Self::Weights {
        let mut both = [by[0]; Columns::LEN];
        both[SUMS..].fill(by[1]);
        self.avx512bw._mm512_mullo_epi16(weights, cast(both))
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
        let products = self.avx512bw._mm512_madd_epi16(weights, cast(columns.0));
        self.avx512f._mm512_add_epi32(sums, products)
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scale: f32, totals: Self::Totals) -> Self::Totals {
        let sums = self.avx512f._mm512_cvtepi32_ps(sums);
        let scale = self.avx512f._mm512_set1_ps(scale);
        self.avx512f._mm512_fmadd_ps(scale, sums, totals)
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: &[f32; SUMS],
        right: &[f32; SUMS],
        totals: Self::Totals,
    ) -> Self::Totals {
        self.avx512f
            ._mm512_fmadd_ps(cast(*left), cast(*right), totals)
    }

    #[inline(always)]
    fn numbers(self, totals: Self::Totals) -> [f32; SUMS] {
        cast(totals)
    }
}
