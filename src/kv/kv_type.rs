//! The types of values in the key-value cache: numbers, or 8-bit quants that share scales.

use half::{bf16, f16};
use serde::Serialize;

use super::q8_0;
use crate::quant::{DType, Format};

/// The type of K or of V.
#[allow(non_camel_case_types)] // the field writes them so
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    F32,
    #[default]
    F16,
    BF16,
    Q8_0,
}

impl KvType {
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::BF16, Self::Q8_0];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// The number type; `None` for quants.
    #[must_use]
    pub const fn number(self) -> Option<DType> {
        match self {
            Self::F32 => Some(DType::F32),
            Self::F16 => Some(DType::F16),
            Self::BF16 => Some(DType::BF16),
            Self::Q8_0 => None,
        }
    }

    /// The divisor that the width of a head must have.
    #[must_use]
    pub const fn granule(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 => q8_0::LEAST_BLOCK,
        }
    }

    /// Bytes of a head's values at one position, and of their scales, which follow.
    #[must_use]
    pub const fn parts(self, head_dim: usize) -> [usize; 2] {
        match self {
            Self::F32 => [4 * head_dim, 0],
            Self::F16 | Self::BF16 => [2 * head_dim, 0],
            Self::Q8_0 => [head_dim, 2 * (head_dim / q8_0::block(head_dim))],
        }
    }

    /// Bytes of one head at one position.
    #[must_use]
    pub const fn bytes(self, head_dim: usize) -> usize {
        let [values, scales] = self.parts(head_dim);
        values + scales
    }

    /// Encodes one head at one position as `bytes(values.len())` bytes.
    pub fn encode(self, values: &[f32], out: &mut [u8]) {
        match self {
            Self::F32 => put(values, out, f32::to_le_bytes),
            Self::F16 => put(values, out, |value| f16::from_f32(value).to_le_bytes()),
            Self::BF16 => put(values, out, |value| bf16::from_f32(value).to_le_bytes()),
            Self::Q8_0 => q8_0::quantize(values, out),
        }
    }

    /// Decodes one head at some positions of `bytes(head_dim)` bytes each. Quants become f32.
    #[inline(always)]
    pub fn decode(self, head_dim: usize, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => Format::F32.dequantize(bytes, out),
            Self::F16 => Format::F16.dequantize(bytes, out),
            Self::BF16 => Format::BF16.dequantize(bytes, out),
            Self::Q8_0 => q8_0::dequantize(head_dim, bytes, out),
        }
    }
}

fn put<const N: usize>(values: &[f32], out: &mut [u8], encode: impl Fn(f32) -> [u8; N]) {
    for (out, value) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *out = encode(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::PAGE;

    #[test]
    fn q8_0_needs_little_more_than_half_of_f16() {
        for (head_dim, bytes) in [(16, 18), (32, 34), (80, 90), (96, 102), (128, 136)] {
            assert_eq!(KvType::Q8_0.bytes(head_dim), bytes);
            assert_eq!(KvType::F16.bytes(head_dim), 2 * head_dim);
        }
    }

    /// Kernels read pieces of 16 bytes, so each part of a page must begin at a multiple of 16.
    #[test]
    fn parts_of_a_page_are_aligned() {
        for element in KvType::ALL {
            for head_dim in (16..=256).step_by(16) {
                for bytes in element.parts(head_dim) {
                    assert_eq!(PAGE * bytes % 16, 0, "{element:?}, {head_dim}");
                }
            }
        }
    }
}
