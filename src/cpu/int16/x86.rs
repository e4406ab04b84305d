//! The machines of x86-64.

use core::arch::x86_64::{__m128i, __m256i, __m512, __m512i};

use pulp::cast;
use pulp::x86::{V3, V4};
use pulp::{f32x8, i16x16, i32x8};

use super::machine::{Columns, Machine, Pairs, SUMS, sum_of_four};
use super::portable::Portable;
use crate::quant::{PIECE, SHORT, Vectors};

pulp::simd_type! {
    /// AVX-512 with fused products and additions of 16-bit integers. Its code is that of `V4`, in which the compiler
    /// finds what can be fused.
    pub(super) struct Fused {
        pub(super) avx512f: "avx512f",
        pub(super) avx512bw: "avx512bw",
        pub(super) avx512cd: "avx512cd",
        pub(super) avx512dq: "avx512dq",
        pub(super) avx512vl: "avx512vl",
        pub(super) avx512vnni: "avx512vnni",
        pub(super) fma: "fma",
    }
}

/// Aligned to lines of the cache.
#[repr(align(64))]
struct Places([[[u8; 2 * Columns::LEN]; 4]; 2]);

/// For each 64 columns of a block, and for groups of 16 and of 32: the place of a column's factor, in the upper byte of
/// its 16 bits. The order is that of `Columns`; bytes are shuffled so.
static PLACES: Places = {
    let mut places = [[[0x80; 2 * Columns::LEN]; 4]; 2];
    let mut place = 0;
    while place < 2 * 4 * Columns::LEN {
        let (of_32, at, index) = (place / 128, place / 32 % 4, place % 32);
        // A group of 16 has eight columns with even numbers.
        #[allow(clippy::cast_possible_truncation)] // below 16
        let group = (if of_32 == 1 {
            2 * at + index / 16
        } else {
            4 * at + index / 8
        }) as u8;
        places[of_32][at][2 * index + 1] = group;
        place += 1;
    }
    Places(places)
};

/// For each 32-bit integer of two quarters.
const fn shifts([first, second]: [u32; 2]) -> [u32; 8] {
    [first, first, first, first, second, second, second, second]
}

/// AVX2: two vectors of each.
impl Vectors for V3 {
    type Bytes = [__m256i; 2];

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Bytes {
        cast(*bytes)
    }

    #[inline(always)]
    fn join(self, first: &[u8; 32], second: &[u8; 32]) -> Self::Bytes {
        [cast(*first), cast(*second)]
    }

    #[inline(always)]
    fn double(self, first: &[u8; 16], second: &[u8; 16]) -> Self::Bytes {
        let twice = |quarter: &[u8; 16]| self.avx2._mm256_broadcastsi128_si256(cast(*quarter));
        [twice(first), twice(second)]
    }

    #[inline(always)]
    fn left(self, bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        let mask = cast([mask; 32]);
        let shifted = |bytes, by| {
            let bytes = self.avx2._mm256_sllv_epi32(bytes, cast(shifts(by)));
            self.avx2._mm256_and_si256(bytes, mask)
        };
        [
            shifted(bytes[0], [by[0], by[1]]),
            shifted(bytes[1], [by[2], by[3]]),
        ]
    }

    #[inline(always)]
    fn right(self, bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes {
        let mask = cast([mask; 32]);
        let shifted = |bytes, by| {
            let bytes = self.avx2._mm256_srlv_epi32(bytes, cast(shifts(by)));
            self.avx2._mm256_and_si256(bytes, mask)
        };
        [
            shifted(bytes[0], [by[0], by[1]]),
            shifted(bytes[1], [by[2], by[3]]),
        ]
    }

    #[inline(always)]
    fn or(self, [a, b]: Self::Bytes, [c, d]: Self::Bytes) -> Self::Bytes {
        let or = |left, right| self.avx2._mm256_or_si256(left, right);
        [or(a, c), or(b, d)]
    }

    #[inline(always)]
    fn subtract(self, [a, b]: Self::Bytes, by: u8) -> Self::Bytes {
        let less = |bytes| self.avx2._mm256_sub_epi8(bytes, cast([by; 32]));
        [less(a), less(b)]
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], [a, b]: Self::Bytes) -> Self::Bytes {
        let table = self.avx2._mm256_broadcastsi128_si256(cast(*table));
        let look_up = |indexes| self.avx2._mm256_shuffle_epi8(table, indexes);
        [look_up(a), look_up(b)]
    }

    #[inline(always)]
    fn spread(self, [a, b]: [u32; 2], value: u8) -> Self::Bytes {
        let bytes = cast([
            [0_u64, 0x0101_0101_0101_0101],
            [0x0202_0202_0202_0202, 0x0303_0303_0303_0303],
        ]);
        let bit: __m256i = cast([0x8040_2010_0804_0201_u64; 4]);
        let spread = |bits: u32| {
            let bits = self.avx2._mm256_shuffle_epi8(cast([bits; 8]), bytes);
            let bits = self.avx2._mm256_and_si256(bits, bit);
            let set = self.avx2._mm256_cmpeq_epi8(bits, bit);
            self.avx2._mm256_and_si256(set, cast([value; 32]))
        };
        [spread(a), spread(b)]
    }

    #[inline(always)]
    fn negate(self, [a, b]: Self::Bytes, bits: [u32; 2]) -> Self::Bytes {
        let [of_a, of_b] = self.spread(bits, 0xff);
        let negate = |bytes, mask| {
            let flipped = self.avx2._mm256_xor_si256(bytes, mask);
            self.avx2._mm256_sub_epi8(flipped, mask)
        };
        [negate(a, of_a), negate(b, of_b)]
    }

    #[inline(always)]
    fn halves(self, words: [u64; 2]) -> [f32; 8] {
        Portable.halves(words)
    }
}

impl Machine for V3 {
    type Weights = [i16x16; 2];
    type Factors = [__m256i; 2];
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
    fn weights(self, [a, b]: Self::Bytes, signed: bool) -> [Self::Weights; 2] {
        let even = |bytes| {
            cast(if signed {
                let upper = self.avx2._mm256_slli_epi16::<8>(bytes);
                self.avx2._mm256_srai_epi16::<8>(upper)
            } else {
                self.avx2._mm256_and_si256(bytes, cast([0xff_u16; 16]))
            })
        };
        let odd = |bytes| {
            cast(if signed {
                self.avx2._mm256_srai_epi16::<8>(bytes)
            } else {
                self.avx2._mm256_srli_epi16::<8>(bytes)
            })
        };
        [[even(a), even(b)], [odd(a), odd(b)]]
    }

    #[inline(always)]
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors {
        let scales = self.avx2._mm256_broadcastsi128_si256(cast(*scales));
        let [a, b] = cast(PLACES.0[usize::from(columns > PIECE)][at % 4]);
        let shuffled = |places| self.avx2._mm256_shuffle_epi8(scales, places);
        [shuffled(a), shuffled(b)]
    }

    /// Both factors are upper bytes, so that the upper half of the product is theirs.
    #[inline(always)]
    fn scaled(self, [a, b]: Self::Bytes, [of_a, of_b]: Self::Factors) -> [Self::Weights; 2] {
        let even = |bytes, by| {
            let upper = self.avx2._mm256_slli_epi16::<8>(bytes);
            cast(self.avx2._mm256_mulhi_epi16(upper, by))
        };
        let odd = |bytes, by| {
            let upper = self.avx2._mm256_and_si256(bytes, cast([0xff00_u16; 16]));
            cast(self.avx2._mm256_mulhi_epi16(upper, by))
        };
        [[even(a, of_a), even(b, of_b)], [odd(a, of_a), odd(b, of_b)]]
    }

    #[inline(always)]
    fn repeated(self, pair: i32) -> Self::Weights {
        [cast(self.splat_i32x8(pair)); 2]
    }

    #[inline(always)]
    fn pairs(self, weights: Self::Weights) -> Pairs {
        cast(weights)
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
    fn both(self, left: Self::Sums, right: Self::Sums) -> Self::Sums {
        let both = |half: usize| {
            let (left, right) = (cast(left[half]), cast(right[half]));
            cast(self.avx2._mm256_add_epi32(left, right))
        };
        [both(0), both(1)]
    }

    #[inline(always)]
    fn quarters(self, [a, b]: Self::Sums) -> [i32; SHORT] {
        let halves = self.avx2._mm256_add_epi32(cast(a), cast(b));
        let [low, high]: [__m128i; 2] = cast(halves);
        cast(self.sse2._mm_add_epi32(low, high))
    }

    #[inline(always)]
    fn of_blocks(self, [[a, b], [c, d]]: [Self::Sums; 2]) -> [i32; SHORT] {
        let pairs = |left: __m256i, right: __m256i| self.avx2._mm256_hadd_epi32(left, right);
        let all = pairs(pairs(cast(a), cast(b)), pairs(cast(c), cast(d)));
        let [low, high]: [__m128i; 2] = cast(all);
        cast(self.sse2._mm_add_epi32(low, high))
    }

    #[inline(always)]
    fn multiply(self, left: &[f32; SUMS], right: f32) -> Self::Totals {
        let left: Self::Totals = cast(*left);
        left.map(|left| self.mul_f32x8(left, self.splat_f32x8(right)))
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scales: Self::Totals, totals: Self::Totals) -> Self::Totals {
        let sums = sums.map(|sums| self.convert_i32x8_to_f32x8(sums));
        self.multiply_add(scales, sums, totals)
    }

    #[inline(always)]
    fn splat(self, number: f32) -> Self::Totals {
        [self.splat_f32x8(number); 2]
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
    fn plus(self, left: Self::Totals, right: Self::Totals) -> Self::Totals {
        [
            self.add_f32x8(left[0], right[0]),
            self.add_f32x8(left[1], right[1]),
        ]
    }

    #[inline(always)]
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> Self::Totals {
        cast::<_, [u64; 2]>(*minima).map(|minima| {
            let minima = self.avx2._mm256_cvtepu8_epi32(cast([minima, 0]));
            let minima = self.convert_i32x8_to_f32x8(cast(minima));
            self.mul_f32x8(self.splat_f32x8(-minimum), minima)
        })
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: Self::Totals,
        right: Self::Totals,
        totals: Self::Totals,
    ) -> Self::Totals {
        [
            self.mul_add_f32x8(left[0], right[0], totals[0]),
            self.mul_add_f32x8(left[1], right[1], totals[1]),
        ]
    }

    #[inline(always)]
    fn whole(self, totals: Self::Totals) -> f32 {
        let [low, high] = cast(self.add_f32x8(totals[0], totals[1]));
        sum_of_four(cast(self.add_f32x4(low, high)))
    }
}

/// AVX-512: one vector of each.
impl Vectors for V4 {
    type Bytes = __m512i;

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Bytes {
        cast(*bytes)
    }

    #[inline(always)]
    fn join(self, first: &[u8; 32], second: &[u8; 32]) -> Self::Bytes {
        let (first, second): (__m256i, __m256i) = (cast(*first), cast(*second));
        let first = self.avx512f._mm512_broadcast_i64x4(first);
        self.avx512f._mm512_inserti64x4::<1>(first, second)
    }

    #[inline(always)]
    fn double(self, first: &[u8; 16], second: &[u8; 16]) -> Self::Bytes {
        let (first, second): (__m128i, __m128i) = (cast(*first), cast(*second));
        let first = self.avx512f._mm512_broadcast_i32x4(first);
        self.avx512f
            ._mm512_mask_broadcast_i32x4(first, 0xff00, second)
    }

    #[inline(always)]
    fn left(self, bytes: Self::Bytes, [p, q, r, s]: [u32; 4], mask: u8) -> Self::Bytes {
        let by = cast([shifts([p, q]), shifts([r, s])]);
        let bytes = self.avx512f._mm512_sllv_epi32(bytes, by);
        self.avx512f._mm512_and_si512(bytes, cast([mask; 64]))
    }

    #[inline(always)]
    fn right(self, bytes: Self::Bytes, [p, q, r, s]: [u32; 4], mask: u8) -> Self::Bytes {
        let by = cast([shifts([p, q]), shifts([r, s])]);
        let bytes = self.avx512f._mm512_srlv_epi32(bytes, by);
        self.avx512f._mm512_and_si512(bytes, cast([mask; 64]))
    }

    #[inline(always)]
    fn or(self, left: Self::Bytes, right: Self::Bytes) -> Self::Bytes {
        self.avx512f._mm512_or_si512(left, right)
    }

    #[inline(always)]
    fn subtract(self, bytes: Self::Bytes, by: u8) -> Self::Bytes {
        self.avx512bw._mm512_sub_epi8(bytes, cast([by; 64]))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indexes: Self::Bytes) -> Self::Bytes {
        let table = self.avx512f._mm512_broadcast_i32x4(cast(*table));
        self.avx512bw._mm512_shuffle_epi8(table, indexes)
    }

    #[inline(always)]
    fn spread(self, [first, second]: [u32; 2], value: u8) -> Self::Bytes {
        let bits = u64::from(first) | u64::from(second) << 32;
        self.avx512bw
            ._mm512_maskz_set1_epi8(bits, value.cast_signed())
    }

    #[inline(always)]
    fn negate(self, bytes: Self::Bytes, [first, second]: [u32; 2]) -> Self::Bytes {
        let bits = u64::from(first) | u64::from(second) << 32;
        let zeros = cast([0_u8; 64]);
        self.avx512bw
            ._mm512_mask_sub_epi8(bytes, bits, zeros, bytes)
    }

    #[inline(always)]
    fn halves(self, words: [u64; 2]) -> [f32; 8] {
        cast(self.avx512f._mm256_maskz_cvtph_ps(0xff, cast(words)))
    }
}

impl Machine for V4 {
    type Weights = __m512i;
    type Factors = __m512i;
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
    fn weights(self, integers: Self::Bytes, signed: bool) -> [Self::Weights; 2] {
        let Self {
            avx512f, avx512bw, ..
        } = self;
        if signed {
            let upper = avx512bw._mm512_slli_epi16::<8>(integers);
            return [
                avx512bw._mm512_srai_epi16::<8>(upper),
                avx512bw._mm512_srai_epi16::<8>(integers),
            ];
        }
        [
            avx512f._mm512_and_si512(integers, cast([0xff_u16; 32])),
            avx512bw._mm512_srli_epi16::<8>(integers),
        ]
    }

    #[inline(always)]
    fn factors(self, scales: &[i8; SUMS], columns: usize, at: usize) -> Self::Factors {
        let scales = self.avx512f._mm512_broadcast_i32x4(cast(*scales));
        let places = cast(PLACES.0[usize::from(columns > PIECE)][at % 4]);
        self.avx512bw._mm512_shuffle_epi8(scales, places)
    }

    /// Both factors are upper bytes, so that the upper half of the product is theirs.
    #[inline(always)]
    fn scaled(self, integers: Self::Bytes, by: Self::Factors) -> [Self::Weights; 2] {
        let even = self.avx512bw._mm512_slli_epi16::<8>(integers);
        let odd = self
            .avx512f
            ._mm512_and_si512(integers, cast([0xff00_u16; 32]));
        [
            self.avx512bw._mm512_mulhi_epi16(even, by),
            self.avx512bw._mm512_mulhi_epi16(odd, by),
        ]
    }

    #[inline(always)]
    fn repeated(self, pair: i32) -> Self::Weights {
        self.avx512f._mm512_set1_epi32(pair)
    }

    #[inline(always)]
    fn pairs(self, weights: Self::Weights) -> Pairs {
        cast(weights)
    }

    #[inline(always)]
    fn add(self, weights: Self::Weights, columns: &Columns, sums: Self::Sums) -> Self::Sums {
        let columns = cast(columns.0);
        let products = self.avx512bw._mm512_madd_epi16(weights, columns);
        self.both(sums, products)
    }

    #[inline(always)]
    fn both(self, left: Self::Sums, right: Self::Sums) -> Self::Sums {
        self.avx512f._mm512_add_epi32(left, right)
    }

    #[inline(always)]
    fn quarters(self, sums: Self::Sums) -> [i32; SHORT] {
        let [low, high]: [__m256i; 2] = cast(sums);
        let [low, high]: [__m128i; 2] = cast(self.avx2._mm256_add_epi32(low, high));
        cast(self.sse2._mm_add_epi32(low, high))
    }

    #[inline(always)]
    fn of_blocks(self, [left, right]: [Self::Sums; 2]) -> [i32; SHORT] {
        let low = self.avx512f._mm512_unpacklo_epi64(left, right);
        let high = self.avx512f._mm512_unpackhi_epi64(left, right);
        // In each quarter, two sums of the first or second block, then two of the third or fourth.
        let [first, second]: [__m256i; 2] = cast(self.both(low, high));
        let halves = self.avx2._mm256_hadd_epi32(first, second);
        let [low, high]: [__m128i; 2] = cast(halves);
        let sums = self.sse2._mm_add_epi32(low, high);
        cast(self.sse2._mm_shuffle_epi32::<0b11_01_10_00>(sums))
    }

    #[inline(always)]
    fn multiply(self, left: &[f32; SUMS], right: f32) -> Self::Totals {
        self.avx512f._mm512_mul_ps(cast(*left), self.splat(right))
    }

    #[inline(always)]
    fn total(self, sums: Self::Sums, scales: Self::Totals, totals: Self::Totals) -> Self::Totals {
        let sums = self.avx512f._mm512_cvtepi32_ps(sums);
        self.multiply_add(scales, sums, totals)
    }

    #[inline(always)]
    fn splat(self, number: f32) -> Self::Totals {
        self.avx512f._mm512_set1_ps(number)
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
    fn plus(self, left: Self::Totals, right: Self::Totals) -> Self::Totals {
        self.avx512f._mm512_add_ps(left, right)
    }

    #[inline(always)]
    fn addends(self, minimum: f32, minima: &[u8; SUMS]) -> Self::Totals {
        let minima = self.avx512f._mm512_cvtepu8_epi32(cast(*minima));
        let minima = self.avx512f._mm512_cvtepi32_ps(minima);
        self.avx512f._mm512_mul_ps(self.splat(-minimum), minima)
    }

    #[inline(always)]
    fn multiply_add(
        self,
        left: Self::Totals,
        right: Self::Totals,
        totals: Self::Totals,
    ) -> Self::Totals {
        self.avx512f._mm512_fmadd_ps(left, right, totals)
    }

    #[inline(always)]
    fn whole(self, totals: Self::Totals) -> f32 {
        let [low, high]: [f32x8; 2] = cast(totals);
        let [low, high] = cast(self.add_f32x8(low, high));
        sum_of_four(cast(self.add_f32x4(low, high)))
    }
}
