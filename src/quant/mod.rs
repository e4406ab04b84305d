//! The number formats of weights: their blocks, values, layout in a GPU's memory, and random test data.
//!
//! A format is a type in the file of its family and a line of the list below. This module computes on bytes: it reads
//! no files, allocates no device memory, and does not know the purpose of a weight.
#![allow(non_camel_case_types)] // the field writes formats so

mod about;
mod block;
mod codebook;
mod dtype;
mod few_bits;
mod grid;
mod grids;
mod halves;
mod k;
mod layout;
mod legacy;
mod long;
mod plain;
pub mod random;
mod recipe;
mod rows;
mod short;
mod span;
mod storage;
mod tile;
mod vectors;

pub use dtype::DType;
pub(crate) use halves::half;
pub use layout::{Layout, TILE_ROWS, UNIT, padded};
pub use span::{Blocks, Integers, Long, PIECE, PIECES, SHORT, Short};
pub use storage::Storage;
pub use vectors::Vectors;

use about::About;

macro_rules! formats {
    ($($name:ident = $number:literal: $family:ident, $decoded:ident, $blocks:ident;)+) => {
        /// The formats with their names in GGUF; safetensors files use the first three.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($name = $number,)+
        }

        impl Format {
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            const fn about(self) -> &'static About {
                match self {
                    $(Self::$name => const { &$decoded::about(&$family::$name) },)+
                }
            }

            /// Calls `sink` with the values of the blocks in `bytes`, in multiples of 16 except for the last. The bits
            /// are those of the Python package `gguf`.
            #[allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined
            #[inline(always)]
            pub fn decode(self, bytes: &[u8], sink: impl FnMut(&[f32])) {
                match self {
                    $(Self::$name => $decoded::decode(&$family::$name, bytes, sink),)+
                }
            }

            /// Calls `sink` with the values in `bytes` as [`Self::decode`] does, but only for formats without blocks.
            #[allow(clippy::inline_always)] // as above
            #[inline(always)]
            pub fn numbers(self, bytes: &[u8], sink: impl FnMut(&[f32])) {
                match self {
                    $(Self::$name => $decoded::numbers(&$family::$name, bytes, sink),)+
                }
            }

            /// Calls `sink` with the 16 or 32 integers of each group in `bytes`, their factor and their addend, but
            /// only for formats with blocks.
            #[allow(clippy::inline_always)] // as above
            #[inline(always)]
            pub fn groups(self, bytes: &[u8], sink: impl FnMut(&[i8], f32, f32)) {
                match self {
                    $(Self::$name => $decoded::groups(&$family::$name, bytes, sink),)+
                }
            }

            /// Passes the blocks in `bytes` to `to`, but only for formats with blocks.
            #[allow(clippy::inline_always)] // as above
            #[inline(always)]
            pub fn spans<V: Vectors>(self, vectors: V, bytes: &[u8], to: &mut impl Blocks<V>) {
                match self {
                    $(Self::$name => $blocks::spans(&$family::$name, vectors, bytes, to),)+
                }
            }
        }
    };
}

// The name, the number in ggml's `enum ggml_type`, the file of the family, the kind of decoding, and the length of blocks.
formats! {
    F32 = 0: plain, plain, plain;
    F16 = 1: plain, plain, plain;
    BF16 = 30: plain, plain, plain;
    Q8_0 = 8: legacy, block, short;
    Q4_0 = 2: legacy, block, short;
    Q4_1 = 3: legacy, block, short;
    Q5_0 = 6: legacy, block, short;
    Q5_1 = 7: legacy, block, short;
    Q2_K = 10: few_bits, block, long;
    Q3_K = 11: few_bits, block, long;
    Q4_K = 12: k, block, long;
    Q5_K = 13: k, block, long;
    Q6_K = 14: k, block, long;
    IQ4_NL = 20: codebook, block, short;
    IQ4_XS = 23: codebook, block, long;
    IQ2_S = 22: grid, block, long;
    IQ3_S = 21: grid, block, long;
    IQ3_XXS = 18: grid, block, long;
}

/// The recommended formats for users, by the usual names of their files.
pub const USUAL_FILES: &str = "Q4_K_M or IQ4_XS";

/// Formats of ggml that are not supported.
const UNKNOWN: &[(u32, &str)] = &[
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (19, "IQ1_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

impl Format {
    /// The format with a number in ggml's `enum ggml_type`.
    ///
    /// # Errors
    /// The name of an unsupported format.
    pub fn of_number(number: u32) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|one| one.number() == number);
        known.ok_or_else(|| {
            let unknown = UNKNOWN.iter().find(|(other, _)| *other == number);
            unknown.map_or_else(|| format!("ggml type {number}"), |(_, name)| (*name).into())
        })
    }

    /// The number in ggml's `enum ggml_type`, which kernels use, too.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Values of a block. The columns of a matrix must be a multiple of it.
    #[must_use]
    pub const fn block_len(self) -> usize {
        self.about().values
    }

    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.about().bytes
    }

    /// Bytes of a row of `columns` elements, a multiple of the block length.
    #[must_use]
    pub const fn row_bytes(self, columns: usize) -> usize {
        columns / self.block_len() * self.block_bytes()
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
