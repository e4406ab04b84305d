//! Numbers that look random and are the same in every run; no more than the inputs of a comparison need.

use half::f16;
use rayon::prelude::*;

use crate::model::Format;

/// SplitMix64 (Steele et al. 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[allow(clippy::cast_possible_truncation)] // below `n`
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// In 0..1.
    #[allow(clippy::cast_precision_loss)] // 24 bits are exact
    pub(super) fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }

    /// Nearly normal, of variance 1: the sum of four uniform numbers.
    pub(super) fn normal(&mut self) -> f32 {
        let word = self.next();
        let sum: f32 = (0..4)
            .map(|lane| f32::from((word >> (16 * lane) & 0xffff) as u16))
            .sum();
        (sum / 65536.0 - 2.0) * 3.0_f32.sqrt()
    }

    pub(super) fn normals(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.normal()).collect()
    }
}

/// Deals each value once before it deals any again, so that each appears beside several of other decks.
#[derive(Clone, Debug)]
pub(super) struct Deck<T> {
    values: Vec<T>,
    left: Vec<T>,
    random: Random,
}

impl<T: Clone> Deck<T> {
    pub(super) fn new(seed: u64, values: &[T]) -> Self {
        Self {
            values: values.to_vec(),
            left: Vec::new(),
            random: Random::new(seed),
        }
    }

    pub(super) fn deal(&mut self) -> T {
        if self.left.is_empty() {
            self.left.clone_from(&self.values);
            for at in (1..self.left.len()).rev() {
                self.left.swap(at, self.random.below(at + 1));
            }
        }
        self.left
            .pop()
            .unwrap_or_else(|| unreachable!("no deck is empty"))
    }
}

/// A matrix as a file of `format` stores it: any block that a file could hold, of values whose products
/// with normal rows are about normal.
pub(super) fn matrix(seed: u64, format: Format, rows: usize, columns: usize) -> Vec<u8> {
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
    match format {
        Format::F32 => return block.copy_from_slice(&value.to_le_bytes()),
        Format::F16 => return block.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
        Format::BF16 => return block.copy_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
        _ => {}
    }
    for bytes in block.chunks_mut(8) {
        bytes.copy_from_slice(&random.next().to_le_bytes()[..bytes.len()]);
    }
    // The root mean square of what the scale multiplies, and the middle of the quants that a minimum moves to 0.
    let (spread, middle) = match format {
        Format::Q8_0 => (74.0, 0.0),
        Format::Q4_0 => (4.6, 0.0),
        Format::Q4_1 => (4.6, 7.5),
        Format::Q5_0 => (9.2, 0.0),
        Format::Q5_1 => (9.2, 15.5),
        Format::Q4_K => (170.0, 7.5),
        Format::Q5_K => (340.0, 15.5),
        _ => (1370.0, 0.0),
    };
    let mut about = |value: f32| f16::from_f32(value * (0.7 + 0.6 * random.uniform()));
    let scale = about(size / spread);
    let at = if format == Format::Q6_K { 208 } else { 0 };
    block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
    if middle > 0.0 {
        // K formats subtract their minimum.
        let sign = if format.block_len() == 32 { -1.0 } else { 1.0 };
        let minimum = about(sign * middle * scale.to_f32());
        block[2..4].copy_from_slice(&minimum.to_le_bytes());
    }
}
