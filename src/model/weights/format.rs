//! The number formats that a weight can be stored in.

use super::dequantize::{self, blocks, numbers};

/// Formats as GGUF names them; safetensors files use the first three.
#[allow(non_camel_case_types)] // the field writes them so
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4_K,
    Q5_K,
    Q6_K,
}

impl Format {
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
    ];

    /// Elements of a block: columns must be a multiple of it.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 => 32,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// Bytes of a row of `columns` elements, a multiple of the block length.
    #[must_use]
    pub const fn row_bytes(self, columns: usize) -> usize {
        columns / self.block_len() * self.block_bytes()
    }

    /// Hands on the values of the blocks in `bytes`, some multiple of 16 at a time but for the last ones, bit for bit as
    /// the reference implementation in the Python package `gguf` makes them.
    #[allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined
    #[inline(always)]
    pub fn decode(self, bytes: &[u8], sink: impl FnMut(&[f32])) {
        match self {
            Self::F32 => numbers::<dequantize::F32, _>(bytes, sink),
            Self::F16 => numbers::<dequantize::F16, _>(bytes, sink),
            Self::BF16 => numbers::<dequantize::BF16, _>(bytes, sink),
            Self::Q8_0 => blocks::<dequantize::Q8_0, _, _, _>(bytes, sink),
            Self::Q4_0 => blocks::<dequantize::Q4_0, _, _, _>(bytes, sink),
            Self::Q4_1 => blocks::<dequantize::Q4_1, _, _, _>(bytes, sink),
            Self::Q5_0 => blocks::<dequantize::Q5_0, _, _, _>(bytes, sink),
            Self::Q5_1 => blocks::<dequantize::Q5_1, _, _, _>(bytes, sink),
            Self::Q4_K => blocks::<dequantize::Q4_K, _, _, _>(bytes, sink),
            Self::Q5_K => blocks::<dequantize::Q5_K, _, _, _>(bytes, sink),
            Self::Q6_K => blocks::<dequantize::Q6_K, _, _, _>(bytes, sink),
        }
    }

    /// Writes the values of the blocks in `bytes` to `out`.
    ///
    /// # Panics
    /// If `bytes` is not as long as `row_bytes(out.len())`.
    #[allow(clippy::inline_always)] // as above
    #[inline(always)]
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(bytes.len(), self.row_bytes(out.len()));
        let mut rest = out;
        self.decode(
            bytes,
            #[inline(always)]
            |values| {
                let (here, after) = std::mem::take(&mut rest).split_at_mut(values.len());
                here.copy_from_slice(values);
                rest = after;
            },
        );
    }
}
