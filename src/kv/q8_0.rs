//! 8-bit quants with an f16 scale for each block of a head: the cache type q8_0.
//!
//! The numbers are those of ggml's Q8_0 if the width of a head is a multiple of 32. The scales are stored apart from
//! the quants, so that a GPU reads whole pieces. The kernels compute the same bits.

use half::f16;

use crate::quant::half;

/// The block length of heads whose width is not a multiple of `BLOCK`.
pub(super) const LEAST_BLOCK: usize = 16;
const BLOCK: usize = 32;
/// The largest quant; the least is its negative.
const MOST: f32 = 127.0;

/// Positions whose scales are converted at a time, because a single conversion takes as long as ten values.
const GROUP: usize = 8;

/// The number of values that share a scale.
pub(super) const fn block(head_dim: usize) -> usize {
    if head_dim.is_multiple_of(BLOCK) {
        BLOCK
    } else {
        LEAST_BLOCK
    }
}

/// Encodes one head at one position: its quants, then its scales.
pub(super) fn quantize(values: &[f32], out: &mut [u8]) {
    let (quants, scales) = out.split_at_mut(values.len());
    let block = block(values.len());
    let blocks = values
        .chunks_exact(block)
        .zip(quants.chunks_exact_mut(block));
    for ((values, quants), scale) in blocks.zip(scales.as_chunks_mut().0) {
        let rounded = f16::from_f32(greatest(values) / MOST);
        *scale = rounded.to_le_bytes();
        let divisor = rounded.to_f32();
        for (quant, value) in quants.iter_mut().zip(values) {
            *quant = if divisor == 0.0 {
                0
            } else {
                nearest(value / divisor).cast_unsigned()
            };
        }
    }
}

/// The greatest absolute value. A NaN makes the scale infinite, so that the whole block decodes as NaN.
fn greatest(values: &[f32]) -> f32 {
    let size = |value: &f32| {
        if value.is_nan() {
            f32::INFINITY
        } else {
            value.abs()
        }
    };
    values.iter().map(size).fold(0.0, f32::max)
}

#[allow(clippy::cast_possible_truncation)] // it is clamped
fn nearest(value: f32) -> i8 {
    value.round_ties_even().clamp(-MOST, MOST) as i8
}

/// Decodes one head at some positions.
#[inline(always)]
pub(super) fn dequantize(head_dim: usize, bytes: &[u8], out: &mut [f32]) {
    if block(head_dim) == BLOCK {
        blocks::<BLOCK>(head_dim, bytes, out);
    } else {
        blocks::<LEAST_BLOCK>(head_dim, bytes, out);
    }
}

#[inline(always)]
fn blocks<const N: usize>(head_dim: usize, bytes: &[u8], out: &mut [f32]) {
    let stride = head_dim + 2 * (head_dim / N);
    let groups = bytes.chunks(GROUP * stride);
    for (bytes, out) in groups.zip(out.chunks_mut(GROUP * head_dim)) {
        for block in 0..head_dim / N {
            let mut scales = [0.0; GROUP];
            for (scale, bytes) in scales.iter_mut().zip(bytes.chunks_exact(stride)) {
                let bits = bytes[head_dim..].as_chunks().0[block];
                *scale = half(u16::from_le_bytes(bits).into());
            }
            let positions = bytes
                .chunks_exact(stride)
                .zip(out.chunks_exact_mut(head_dim));
            for ((bytes, out), scale) in positions.zip(scales) {
                let quants = &bytes.as_chunks::<N>().0[block];
                let out = &mut out.as_chunks_mut::<N>().0[block];
                for (out, quant) in out.iter_mut().zip(quants) {
                    *out = f32::from(quant.cast_signed()) * scale;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(values: &[f32]) -> (Vec<i8>, Vec<f32>, Vec<f32>) {
        let head_dim = values.len();
        let mut bytes = vec![0; head_dim + 2 * (head_dim / block(head_dim))];
        quantize(values, &mut bytes);
        let mut read = vec![f32::NAN; head_dim];
        dequantize(head_dim, &bytes, &mut read);
        let (quants, scales) = bytes.split_at(head_dim);
        let scales = scales.as_chunks().0.iter();
        let scales = scales.map(|scale| f16::from_le_bytes(*scale).to_f32());
        let quants = quants.iter().map(|quant| quant.cast_signed());
        (quants.collect(), scales.collect(), read)
    }

    #[test]
    #[allow(clippy::float_cmp)] // all of these are exact
    fn quants_round_to_nearest_even() {
        let mut values = [0.0_f32; 80];
        // The scale of the first block is 2, that of the second is 0.
        values[..6].copy_from_slice(&[254.0, -254.0, 1.0, 3.0, -5.0, 6.99]);
        values[16..18].copy_from_slice(&[1e-6, -3e-6]);
        let (quants, scales, read) = there_and_back(&values);
        assert_eq!(scales, [2.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(quants[..6], [127, -127, 0, 2, -2, 3]);
        assert!(quants[6..].iter().all(|quant| *quant == 0));
        assert_eq!(read[..6], [254.0, -254.0, 0.0, 4.0, -4.0, 6.0]);
        // A scale that was rounded down far, as subnormals are, leaves no room for the greatest value.
        let tiny = [1.49 * 127.0 * f16::from_bits(1).to_f32(); 32];
        assert_eq!(there_and_back(&tiny).0, [127; 32]);
    }

    #[test]
    fn nan_and_infinity_stay_not_finite() {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [1.0; 64];
            values[40] = odd;
            let (_, _, read) = there_and_back(&values);
            assert!(read[..32].iter().all(|value| value.is_finite()));
            assert!(read[32..].iter().all(|value| value.is_nan()));
        }
    }
}
