//! Integer multiplication on each kind of machine. All of them compute the same bits.

/// Columns that are multiplied at a time. A group has one or two such pieces.
pub(super) const COLUMNS: usize = 16;
/// Partial sums of a product.
pub(super) const SUMS: usize = 8;
/// The factor between the halves of an integer.
pub(super) const HALF: i32 = 1 << 15;

/// Sixteen columns of a row's integers, or thirty-two: their upper halves and their lower ones.
type Inputs<'a, I> = (&'a I, &'a I);

pub(super) trait Machine: Copy {
    /// Sixteen weights.
    type Half: Copy;
    /// A whole group of weights.
    type Whole: Copy;
    /// Eight partial sums.
    type Sums: Copy;

    fn zeros(self) -> Self::Sums;

    fn half(self, integers: &[i8; COLUMNS]) -> Self::Half;

    fn whole(self, integers: &[i8; 2 * COLUMNS]) -> Self::Whole;

    /// `sums + scale * (weights . inputs)`; the products of a half are less than 2^24, which f32 holds exactly.
    fn add_half(
        self,
        weights: Self::Half,
        inputs: Inputs<'_, [i16; COLUMNS]>,
        scale: f32,
        sums: Self::Sums,
    ) -> Self::Sums;

    /// Adds a whole group: each sum gets four columns, two of each sixteen.
    fn add(
        self,
        weights: Self::Whole,
        inputs: Inputs<'_, [[i16; COLUMNS]; 2]>,
        scale: f32,
        sums: Self::Sums,
    ) -> Self::Sums;

    fn numbers(self, sums: Self::Sums) -> [f32; SUMS];
}

/// Plain Rust, for other machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Portable {
    #[inline(always)]
    fn products(weights: &[i8; COLUMNS], inputs: &[i16; COLUMNS], products: &mut [i32; SUMS]) {
        for (i, product) in products.iter_mut().enumerate() {
            *product += i32::from(weights[2 * i]) * i32::from(inputs[2 * i])
                + i32::from(weights[2 * i + 1]) * i32::from(inputs[2 * i + 1]);
        }
    }

    #[inline(always)]
    fn scaled(high: [i32; SUMS], low: [i32; SUMS], scale: f32, sums: &mut [f32; SUMS]) {
        for (sum, (high, low)) in sums.iter_mut().zip(high.into_iter().zip(low)) {
            #[allow(clippy::cast_precision_loss)] // less than 2^24
            let product = (high as f32).mul_add(HALF as f32, low as f32);
            *sum = scale.mul_add(product, *sum);
        }
    }
}

impl Machine for Portable {
    type Half = [i8; COLUMNS];
    type Whole = [[i8; COLUMNS]; 2];
    type Sums = [f32; SUMS];

    #[inline(always)]
    fn zeros(self) -> Self::Sums {
        [0.0; SUMS]
    }

    #[inline(always)]
    fn half(self, integers: &[i8; COLUMNS]) -> Self::Half {
        *integers
    }

    #[inline(always)]
    fn whole(self, integers: &[i8; 2 * COLUMNS]) -> Self::Whole {
        let halves = integers.as_chunks::<COLUMNS>().0;
        [halves[0], halves[1]]
    }

    #[inline(always)]
    fn add_half(
        self,
        weights: Self::Half,
        (high, low): Inputs<'_, [i16; COLUMNS]>,
        scale: f32,
        mut sums: Self::Sums,
    ) -> Self::Sums {
        let (mut upper, mut lower) = ([0; SUMS], [0; SUMS]);
        Self::products(&weights, high, &mut upper);
        Self::products(&weights, low, &mut lower);
        Self::scaled(upper, lower, scale, &mut sums);
        sums
    }

    #[inline(always)]
    fn add(
        self,
        weights: Self::Whole,
        (high, low): Inputs<'_, [[i16; COLUMNS]; 2]>,
        scale: f32,
        mut sums: Self::Sums,
    ) -> Self::Sums {
        let (mut upper, mut lower) = ([0; SUMS], [0; SUMS]);
        for (weights, (high, low)) in weights.iter().zip(high.iter().zip(low)) {
            Self::products(weights, high, &mut upper);
            Self::products(weights, low, &mut lower);
        }
        Self::scaled(upper, lower, scale, &mut sums);
        sums
    }

    #[inline(always)]
    fn numbers(self, sums: Self::Sums) -> [f32; SUMS] {
        sums
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{__m256i, __m512i};

    use pulp::x86::{V3, V4};
    use pulp::{cast, f32x8, i16x16, i16x32, i32x8};

    use super::{COLUMNS, HALF, Inputs, Machine, SUMS};

    /// AVX2.
    impl Machine for V3 {
        type Half = i16x16;
        type Whole = [i16x16; 2];
        type Sums = f32x8;

        #[inline(always)]
        fn zeros(self) -> Self::Sums {
            self.splat_f32x8(0.0)
        }

        #[inline(always)]
        fn half(self, integers: &[i8; COLUMNS]) -> Self::Half {
            self.convert_i8x16_to_i16x16(cast(*integers))
        }

        #[inline(always)]
        fn whole(self, integers: &[i8; 2 * COLUMNS]) -> Self::Whole {
            let halves = integers.as_chunks::<COLUMNS>().0;
            [self.half(&halves[0]), self.half(&halves[1])]
        }

        #[inline(always)]
        fn add_half(
            self,
            weights: Self::Half,
            (high, low): Inputs<'_, [i16; COLUMNS]>,
            scale: f32,
            sums: Self::Sums,
        ) -> Self::Sums {
            let times = |inputs: &[i16; COLUMNS]| {
                self.multiply_wrapping_add_adjacent_i16x16(weights, cast(*inputs))
            };
            scaled(self, [times(high), times(low)], scale, sums)
        }

        #[inline(always)]
        fn add(
            self,
            weights: Self::Whole,
            (high, low): Inputs<'_, [[i16; COLUMNS]; 2]>,
            scale: f32,
            sums: Self::Sums,
        ) -> Self::Sums {
            let times = |inputs: &[[i16; COLUMNS]; 2]| -> i32x8 {
                let [one, two] =
                    [0, 1].map(|half| {
                        cast(self.multiply_wrapping_add_adjacent_i16x16(
                            weights[half],
                            cast(inputs[half]),
                        ))
                    });
                cast(self.avx2._mm256_add_epi32(one, two))
            };
            scaled(self, [times(high), times(low)], scale, sums)
        }

        #[inline(always)]
        fn numbers(self, sums: Self::Sums) -> [f32; SUMS] {
            cast(sums)
        }
    }

    #[inline(always)]
    fn scaled(machine: V3, both: [i32x8; 2], scale: f32, sums: f32x8) -> f32x8 {
        let [upper, lower] = both.map(|products| machine.convert_i32x8_to_f32x8(products));
        together(machine, upper, lower, scale, sums)
    }

    #[inline(always)]
    fn together(machine: V3, upper: f32x8, lower: f32x8, scale: f32, sums: f32x8) -> f32x8 {
        #[allow(clippy::cast_precision_loss)] // 2^15
        let half = machine.splat_f32x8(HALF as f32);
        let product = machine.mul_add_f32x8(upper, half, lower);
        machine.mul_add_f32x8(machine.splat_f32x8(scale), product, sums)
    }

    /// AVX-512: a vector holds a whole group.
    impl Machine for V4 {
        type Half = i16x16;
        type Whole = i16x32;
        type Sums = f32x8;

        #[inline(always)]
        fn zeros(self) -> Self::Sums {
            Machine::zeros(*self)
        }

        #[inline(always)]
        fn half(self, integers: &[i8; COLUMNS]) -> Self::Half {
            Machine::half(*self, integers)
        }

        #[inline(always)]
        fn whole(self, integers: &[i8; 2 * COLUMNS]) -> Self::Whole {
            cast(
                self.avx512bw
                    ._mm512_cvtepi8_epi16(cast::<_, __m256i>(*integers)),
            )
        }

        #[inline(always)]
        fn add_half(
            self,
            weights: Self::Half,
            inputs: Inputs<'_, [i16; COLUMNS]>,
            scale: f32,
            sums: Self::Sums,
        ) -> Self::Sums {
            Machine::add_half(*self, weights, inputs, scale, sums)
        }

        #[inline(always)]
        fn add(
            self,
            weights: Self::Whole,
            (high, low): Inputs<'_, [[i16; COLUMNS]; 2]>,
            scale: f32,
            sums: Self::Sums,
        ) -> Self::Sums {
            let times = |inputs: &[[i16; COLUMNS]; 2]| -> __m512i {
                self.avx512bw
                    ._mm512_madd_epi16(cast(weights), cast(*inputs))
            };
            let (high, low) = (times(high), times(low));
            // The products of the first sixteen columns of both, and of the second sixteen.
            let first = self
                .avx512f
                ._mm512_shuffle_i64x2::<0b01_00_01_00>(high, low);
            let second = self
                .avx512f
                ._mm512_shuffle_i64x2::<0b11_10_11_10>(high, low);
            let products = self.avx512f._mm512_add_epi32(first, second);
            let [upper, lower] = cast(self.avx512f._mm512_cvtepi32_ps(products));
            together(*self, upper, lower, scale, sums)
        }

        #[inline(always)]
        fn numbers(self, sums: Self::Sums) -> [f32; SUMS] {
            cast(sums)
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::array;

    use super::*;

    fn sums<M: Machine>(machine: M, random: &mut fastrand::Rng) -> [f32; SUMS] {
        let mut sums = machine.zeros();
        let mut inputs = |most: i16| array::from_fn(|_| random.i16(-most..=most));
        for extreme in [false, true] {
            let [high, low] = [
                [inputs(32_767), inputs(32_767)],
                [inputs(16_384), inputs(16_384)],
            ];
            let weights: [i8; 2 * COLUMNS] = array::from_fn(|at| match (extreme, at % 5) {
                (true, _) => -128,
                (_, 0) => 7,
                _ => -3,
            });
            sums = machine.add(machine.whole(&weights), (&high, &low), 0.37, sums);
            let half = machine.half(&weights.as_chunks().0[0]);
            sums = machine.add_half(half, (&high[1], &low[0]), -1.9, sums);
        }
        machine.numbers(sums)
    }

    #[test]
    fn all_machines_give_the_same_bits() {
        for seed in 0..100 {
            let random = || fastrand::Rng::with_seed(seed);
            let portable = sums(Portable, &mut random()).map(f32::to_bits);
            if let Some(machine) = pulp::x86::V3::try_new() {
                assert_eq!(portable, sums(machine, &mut random()).map(f32::to_bits));
            }
            if let Some(machine) = pulp::x86::V4::try_new() {
                assert_eq!(portable, sums(machine, &mut random()).map(f32::to_bits));
            }
        }
    }
}
