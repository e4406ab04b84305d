//! Which shape of tile a prompt's product takes: the other side of `kernels/prompt/shapes.cuh`.
//!
//! Bits do not depend on the choice, so it may depend on the device. Large tiles read their inputs least often; of
//! a small problem they leave most of the device idle.

use crate::quant::Storage;

/// A tile of a block, and what one costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) tokens: u32,
    /// A block has so many tiles of 16 weight rows.
    pub(super) tiles: u32,
    pub(super) threads: u32,
    stages: u32,
    /// Whether it multiplies gate and up at once.
    gates: bool,
    plain: Cost,
    /// `None`: it has no kernels for blocks.
    blocks: Option<Cost>,
}

/// Time of 64 columns of one tile where a multiprocessor has many, and where it has but one; measured on an H100 with
/// f16 and with Q4_0, in microseconds. Only their ratios matter.
#[derive(Clone, Copy, Debug)]
struct Cost {
    among_many: f32,
    alone: f32,
}

impl Cost {
    const fn of(among_many: f32, alone: f32) -> Self {
        Self { among_many, alone }
    }
}

pub(super) const SHAPES: [Shape; 5] = [
    Shape {
        name: "64x128",
        tokens: 64,
        tiles: 8,
        threads: 128,
        stages: 3,
        gates: true,
        plain: Cost::of(0.41, 0.53),
        blocks: Some(Cost::of(0.5, 0.63)),
    },
    Shape {
        name: "64x64",
        tokens: 64,
        tiles: 4,
        threads: 128,
        stages: 4,
        gates: true,
        plain: Cost::of(0.263, 0.32),
        blocks: Some(Cost::of(0.288, 0.42)),
    },
    Shape {
        name: "64x80",
        tokens: 64,
        tiles: 5,
        threads: 128,
        stages: 4,
        gates: false,
        plain: Cost::of(0.325, 0.42),
        blocks: None,
    },
    Shape {
        name: "32x64",
        tokens: 32,
        tiles: 4,
        threads: 128,
        stages: 6,
        gates: true,
        plain: Cost::of(0.2, 0.22),
        blocks: Some(Cost::of(0.166, 0.205)),
    },
    Shape {
        name: "16x32",
        tokens: 16,
        tiles: 2,
        threads: 64,
        stages: 8,
        gates: true,
        plain: Cost::of(0.1, 0.17),
        blocks: Some(Cost::of(0.06, 0.15)),
    },
];

impl Shape {
    /// Whether there is a kernel of it: weights of four bytes leave no room for the largest.
    pub(super) fn suits(&self, storage: Storage) -> bool {
        self.costs(storage).is_some() && (storage.layout().quants <= 2048 || self.tiles < 5)
    }

    fn costs(&self, storage: Storage) -> Option<Cost> {
        if storage.layout().block_columns.is_some() {
            self.blocks
        } else {
            Some(self.plain)
        }
    }

    /// Bytes of a block's shared memory: `Stage` of `kernels/prompt/product.cuh`.
    pub(super) fn shared(&self, storage: Storage) -> u32 {
        let layout = storage.layout();
        let unit = super::narrow(layout.unit() + layout.head);
        let sums = if layout.has_minimum { 8 } else { 0 };
        self.stages * (self.tokens * (128 + sums) + self.tiles * unit)
    }

    /// Blocks along tokens and weights.
    pub(super) const fn grid(&self, rows: u32, tiles: u32) -> [u32; 3] {
        [rows.div_ceil(self.tokens), tiles.div_ceil(self.tiles), 1]
    }

    /// `None` where there is no kernel of it.
    fn cost(
        &self,
        (storage, gates): (Storage, bool),
        (rows, tiles): (u32, u32),
        multiprocessors: u32,
    ) -> Option<f32> {
        if !self.suits(storage) || gates && !self.gates {
            return None;
        }
        let cost = self.costs(storage)?;
        let [tokens, weights, _] = self.grid(rows, tiles);
        #[allow(clippy::cast_precision_loss)] // there are far fewer than 2^24
        let each = (tokens * weights).div_ceil(multiprocessors) as f32;
        Some((each * cost.among_many).max(cost.alone))
    }
}

/// The quickest for `rows` inputs and so many tiles of weights, which are gate and up or something else.
pub(super) fn quickest(
    of: (Storage, bool),
    (rows, tiles): (u32, u32),
    multiprocessors: u32,
) -> usize {
    let cost = |index: usize| SHAPES[index].cost(of, (rows, tiles), multiprocessors);
    let costs = (0..SHAPES.len()).filter_map(|index| Some((index, cost(index)?)));
    costs
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or(SHAPES.len() - 1, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::Format;

    #[test]
    fn large_problems_take_large_tiles_and_small_ones_spread() {
        let chosen = |format, rows, weights: u32, multiprocessors| {
            let storage = Storage::Stored(format);
            let gates = weights == 19456;
            SHAPES[quickest((storage, gates), (rows, weights / 16), multiprocessors)].name
        };
        assert_eq!(chosen(Format::F16, 2048, 19456, 132), "64x128");
        assert_eq!(chosen(Format::F16, 512, 2560, 132), "64x80");
        assert_eq!(chosen(Format::F16, 384, 2560, 132), "64x64");
        assert_ne!(chosen(Format::F16, 256, 19456, 132), "64x80");
        assert_eq!(chosen(Format::F16, 64, 2560, 132), "32x64");
        assert_eq!(chosen(Format::F32, 2048, 19456, 132), "64x64");
        assert_eq!(chosen(Format::Q4_0, 2048, 19456, 132), "64x128");
        assert_eq!(chosen(Format::Q4_0, 512, 2560, 132), "32x64");
        assert_eq!(chosen(Format::Q4_0, 16, 6144, 132), "16x32");
        assert_eq!(chosen(Format::Q4_0, 512, 2560, 16), "64x128");
    }
}
