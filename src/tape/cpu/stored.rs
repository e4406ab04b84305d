//! Dot products of stored rows with one row of activations: what a row's blocks hold is multiplied as it is decoded, and
//! never lies in memory. Their sums are those of `dots`.

use pulp::{Simd, WithSimd};

use super::Matrix;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::dots::{SUMS, in_pairs, vectors};

/// `out[a] = weight[first + a] . input`
pub(super) struct StoredDots<'a> {
    pub(super) weight: &'a Matrix,
    pub(super) first: usize,
    pub(super) input: &'a [f32],
    pub(super) out: &'a mut [f32],
}

impl WithSimd for StoredDots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = avx512::of(simd)
            && avx512::dots(simd, self.weight, self.first, self.input, self.out)
        {
            return;
        }
        for (row, out) in (self.first..).zip(self.out) {
            *out = match S::F32_LANES {
                16 => stored_dot::<S, 1>(simd, self.weight, row, self.input),
                8 => stored_dot::<S, 2>(simd, self.weight, row, self.input),
                4 => stored_dot::<S, 4>(simd, self.weight, row, self.input),
                _ => stored_dot::<S, SUMS>(simd, self.weight, row, self.input),
            };
        }
    }
}

#[inline(always)]
fn stored_dot<S: Simd, const V: usize>(simd: S, weight: &Matrix, row: usize, input: &[f32]) -> f32 {
    let (whole, input_tail) = input.as_chunks::<SUMS>();
    let mut inputs = vectors::<S, V>(input, whole.len());
    let mut sums = [simd.splat_f32s(0.0); V];
    let mut tail = [0.0; SUMS];
    weight.decode_row(
        row,
        #[inline(always)]
        |values| {
            let (whole, rest) = values.as_chunks::<SUMS>();
            let (here, after) = inputs.split_at(whole.len());
            inputs = after;
            for (values, input) in vectors::<S, V>(values, whole.len()).iter().zip(here) {
                for v in 0..V {
                    sums[v] = simd.mul_add_f32s(values[v], input[v], sums[v]);
                }
            }
            tail[..rest.len()].copy_from_slice(rest);
        },
    );
    let mut parts = [0.0; SUMS];
    S::as_mut_simd_f32s(&mut parts).0.copy_from_slice(&sums);
    for (part, (value, input)) in parts.iter_mut().zip(tail.iter().zip(input_tail)) {
        *part = value.mul_add(*input, *part);
    }
    in_pairs(&parts)
}
