//! Which shape of tile a prompt's product takes: the other side of `kernels/prompt/shapes.cuh`.
//!
//! Bits do not depend on the choice, so it may depend on the device. Large tiles read their inputs least often; of
//! a small problem they leave most of the device idle.

use super::storage::Storage;

/// A tile of a block, and what one costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) tokens: u32,
    /// Of 16 weight rows.
    pub(super) tiles: u32,
    pub(super) threads: u32,
    stages: u32,
    /// Time of 64 columns of one tile where a multiprocessor has many, and where it has but one; measured on an
    /// H200 with Q4_0, in microseconds. Only their ratios matter.
    among_many: f32,
    alone: f32,
}

pub(super) const SHAPES: [Shape; 4] = [
    Shape {
        name: "128x128",
        tokens: 128,
        tiles: 8,
        threads: 128,
        stages: 3,
        among_many: 1.14,
        alone: 1.25,
    },
    Shape {
        name: "128x64",
        tokens: 128,
        tiles: 4,
        threads: 128,
        stages: 3,
        among_many: 0.617,
        alone: 0.83,
    },
    Shape {
        name: "64x64",
        tokens: 64,
        tiles: 4,
        threads: 128,
        stages: 4,
        among_many: 0.378,
        alone: 0.55,
    },
    Shape {
        name: "16x64",
        tokens: 16,
        tiles: 4,
        threads: 64,
        stages: 8,
        among_many: 0.13,
        alone: 0.40,
    },
];

impl Shape {
    /// Whether there is a kernel of it: the largest has no registers for minima, nor room for f32.
    pub(super) fn suits(&self, storage: Storage) -> bool {
        let large = self.tokens * self.tiles == 128 * 8;
        !large || !(storage.has_minimum() || storage.layout().quants > 2048)
    }

    /// Bytes of a block's shared memory: `Stage` of `kernels/prompt/product.cuh`.
    pub(super) fn shared(&self, storage: Storage) -> u32 {
        let layout = storage.layout();
        let unit = super::narrow(layout.unit() + layout.head);
        let sums = if storage.has_minimum() { 8 } else { 0 };
        self.stages * (self.tokens * (128 + sums) + self.tiles * unit)
    }

    /// Blocks along tokens and weights.
    pub(super) const fn grid(&self, rows: u32, tiles: u32) -> [u32; 3] {
        [rows.div_ceil(self.tokens), tiles.div_ceil(self.tiles), 1]
    }

    fn cost(&self, rows: u32, tiles: u32, multiprocessors: u32) -> f32 {
        let [tokens, weights, _] = self.grid(rows, tiles);
        #[allow(clippy::cast_precision_loss)] // there are far fewer than 2^24
        let each = (tokens * weights).div_ceil(multiprocessors) as f32;
        (each * self.among_many).max(self.alone)
    }
}

/// The quickest for `rows` inputs and so many tiles of weights.
pub(super) fn quickest(storage: Storage, rows: u32, tiles: u32, multiprocessors: u32) -> usize {
    let suited = (0..SHAPES.len()).filter(|shape| SHAPES[*shape].suits(storage));
    let cost = |shape: &usize| SHAPES[*shape].cost(rows, tiles, multiprocessors);
    suited
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
        .unwrap_or(SHAPES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Format;

    #[test]
    fn large_problems_take_large_tiles_and_small_ones_spread() {
        let storage = Storage::Stored(Format::Q4_0);
        let chosen = |rows, weights: u32, multiprocessors| {
            SHAPES[quickest(storage, rows, weights / 16, multiprocessors)].name
        };
        assert_eq!(chosen(2048, 19456, 132), "128x128");
        assert_eq!(chosen(512, 2560, 132), "64x64");
        assert_eq!(chosen(16, 6144, 132), "16x64");
        assert_eq!(chosen(512, 2560, 16), "128x128");
    }
}
