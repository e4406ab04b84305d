//! How the key-value cache holds the values of a head: as numbers of a type, or as quants of 8 bits that share scales.

use clap::ValueEnum;
use half::{bf16, f16};
use serde::Serialize;

use super::{DType, q8_0};
use crate::quant::Format;

/// What the cache is made of.
#[allow(non_camel_case_types)] // the field writes them so
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    #[value(name = "f32")]
    F32,
    #[default]
    #[value(name = "f16")]
    F16,
    #[value(name = "bf16")]
    BF16,
    #[value(name = "q8_0")]
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

    /// The type of its numbers; `None` if they are quants.
    #[must_use]
    pub const fn number(self) -> Option<DType> {
        match self {
            Self::F32 => Some(DType::F32),
            Self::F16 => Some(DType::F16),
            Self::BF16 => Some(DType::BF16),
            Self::Q8_0 => None,
        }
    }

    /// What the width of a head must be a multiple of.
    #[must_use]
    pub const fn granule(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 => q8_0::LEAST_BLOCK,
        }
    }

    /// Bytes of a head's values at one position, and of the scales that follow them.
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

    /// Writes one head at one position as `bytes(values.len())` bytes.
    pub fn encode(self, values: &[f32], out: &mut [u8]) {
        match self {
            Self::F32 => put(values, out, f32::to_le_bytes),
            Self::F16 => put(values, out, |value| f16::from_f32(value).to_le_bytes()),
            Self::BF16 => put(values, out, |value| bf16::from_f32(value).to_le_bytes()),
            Self::Q8_0 => q8_0::quantize(values, out),
        }
    }

    /// Reads one head at some positions, of `bytes(head_dim)` bytes each; quants come as they are multiplied, in f32.
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
    use crate::tape::PAGE;

    #[test]
    fn quants_take_a_little_more_than_half_of_f16() {
        for (head_dim, bytes) in [(16, 18), (32, 34), (80, 90), (96, 102), (128, 136)] {
            assert_eq!(KvType::Q8_0.bytes(head_dim), bytes);
            assert_eq!(KvType::F16.bytes(head_dim), 2 * head_dim);
        }
    }

    /// What a kernel reads in pieces of 16 bytes begins at a multiple of them, after whatever lies before it in a page.
    #[test]
    fn all_that_a_page_holds_begins_where_a_kernel_may_read_it() {
        for element in KvType::ALL {
            for head_dim in (16..=256).step_by(16) {
                for bytes in element.parts(head_dim) {
                    assert_eq!(PAGE * bytes % 16, 0, "{element:?}, {head_dim}");
                }
            }
        }
    }
}
