//! Random blocks and numbers, the same in every run. They are random enough for comparisons of executors.

use half::f16;
use rayon::prelude::*;

use super::Format;
use super::recipe::Block;

/// SplitMix64 (Steele et al. 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[allow(clippy::cast_possible_truncation)] // below `n`
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// A number in 0..1.
    #[allow(clippy::cast_precision_loss)] // 24 bits are exact
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 16_777_216.0
    }

    /// An almost normal number of variance 1: the sum of four uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let word = self.bits();
        let sum: f32 = (0..4)
            .map(|lane| f32::from((word >> (16 * lane) & 0xffff) as u16))
            .sum();
        (sum / 65536.0 - 2.0) * 3.0_f32.sqrt()
    }

    pub fn normals(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.normal()).collect()
    }
}

/// A random matrix in the bytes of `format`. The products of its values with normal rows are about normal.
#[must_use]
pub fn matrix(seed: u64, format: Format, rows: usize, columns: usize) -> Vec<u8> {
    let mut bytes = vec![0; rows * format.row_bytes(columns)];
    #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
    let size = 1.0 / (columns as f32).sqrt();
    let rows = bytes.par_chunks_exact_mut(format.row_bytes(columns));
    rows.enumerate().for_each(|(index, row)| {
        let mut random = Random::new(seed ^ (index as u64).wrapping_mul(0xD134_2543_DE82_EF95));
        for block in row.chunks_exact_mut(format.block_bytes()) {
            fill(format, size, &mut random, block);
        }
    });
    bytes
}

/// One block whose values are about `size`.
fn fill(format: Format, size: f32, random: &mut Random, block: &mut [u8]) {
    let value = size * random.normal();
    let scales = match &format.about().random {
        Block::Number(put) => return put(value, block),
        Block::Scales(scales) => scales,
    };
    for bytes in block.chunks_mut(8) {
        bytes.copy_from_slice(&random.bits().to_le_bytes()[..bytes.len()]);
    }
    let mut about = |value: f32| f16::from_f32(value * (0.7 + 0.6 * random.uniform()));
    let scale = about(size / scales.spread);
    block[scales.at..][..2].copy_from_slice(&scale.to_le_bytes());
    if scales.minimum != 0.0 {
        let minimum = about(scales.minimum * scale.to_f32());
        block[scales.at + 2..][..2].copy_from_slice(&minimum.to_le_bytes());
    }
}
