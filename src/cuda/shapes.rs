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
    /// Of a warp: its rows of weights, and units of 64 columns that it multiplies at once.
    rows: u32,
    units: u32,
    /// Whether it multiplies gate and up at once.
    gates: bool,
    /// The shape beside it in one kernel, with as many threads.
    beside: Option<usize>,
    plain: Cost,
    /// `None`: it has no kernels for blocks.
    blocks: Option<Cost>,
}

/// Time of 64 columns of one tile where a multiprocessor has many, and where it has but one; measured on an H100 with
/// f16 and with Q4_0, in microseconds. Only their ratios matter. What one alone takes is of earlier kernels, made less as
/// tiles among many became less, but for 128x128; 64x80 and 32x64 are a little dearer than their largest problems say, as
/// they serve small ones.
#[derive(Clone, Copy, Debug)]
struct Cost {
    among_many: f32,
    alone: f32,
}

impl Cost {
    const fn of(among_many: f32, alone: f32) -> Self {
        Self { among_many, alone }
    }

    fn of_blocks(self, blocks: u32, multiprocessors: u32) -> f32 {
        #[allow(clippy::cast_precision_loss)] // there are far fewer than 2^24
        let each = blocks.div_ceil(multiprocessors) as f32;
        (each * self.among_many).max(self.alone)
    }
}

pub(super) const SHAPES: [Shape; 6] = [
    Shape {
        name: "64x128",
        tokens: 64,
        tiles: 8,
        threads: 128,
        stages: 3,
        rows: 32,
        units: 1,
        gates: true,
        beside: Some(3),
        plain: Cost::of(0.345, 0.446),
        blocks: Some(Cost::of(0.43, 0.636)),
    },
    Shape {
        name: "64x64",
        tokens: 64,
        tiles: 4,
        threads: 128,
        stages: 4,
        rows: 32,
        units: 1,
        gates: true,
        beside: None,
        plain: Cost::of(0.22, 0.274),
        blocks: Some(Cost::of(0.272, 0.397)),
    },
    Shape {
        name: "64x80",
        tokens: 64,
        tiles: 5,
        threads: 128,
        stages: 4,
        rows: 80,
        units: 1,
        gates: false,
        beside: None,
        plain: Cost::of(0.305, 0.37),
        blocks: None,
    },
    Shape {
        name: "32x64",
        tokens: 32,
        tiles: 4,
        threads: 128,
        stages: 6,
        rows: 16,
        units: 2,
        gates: true,
        beside: Some(0),
        plain: Cost::of(0.159, 0.175),
        blocks: Some(Cost::of(0.148, 0.17)),
    },
    Shape {
        name: "16x32",
        tokens: 16,
        tiles: 2,
        threads: 64,
        stages: 8,
        rows: 16,
        units: 2,
        gates: true,
        beside: None,
        plain: Cost::of(0.068, 0.143),
        blocks: Some(Cost::of(0.051, 0.128)),
    },
    Shape {
        name: "128x128",
        tokens: 128,
        tiles: 8,
        threads: 128,
        stages: 3,
        rows: 64,
        units: 1,
        gates: true,
        beside: None,
        plain: Cost::of(0.6, 0.68),
        blocks: None,
    },
];

impl Shape {
    /// Whether there is a kernel of it: weights of four bytes leave no room for the largest.
    pub(super) fn suits(&self, storage: Storage) -> bool {
        self.costs(storage).is_some() && (storage.layout().quants <= 2048 || self.tiles < 5)
    }

    /// Its kernel's name ends so. Of those of two shapes it has both.
    pub(super) fn kernel(&self, storage: Storage) -> String {
        let beside = self.beside.map(|index| &SHAPES[index]);
        match beside.filter(|beside| beside.suits(storage)) {
            Some(beside) if beside.tokens < self.tokens => format!("{}_{}", self.name, beside.name),
            Some(beside) => format!("{}_{}", beside.name, self.name),
            None => self.name.into(),
        }
    }

    fn costs(&self, storage: Storage) -> Option<Cost> {
        if storage.layout().block_columns.is_some() {
            self.blocks
        } else {
            Some(self.plain)
        }
    }

    /// Bytes of a block's shared memory: `Pipeline` of `kernels/prompt/block.cuh`, and `Prepared` of
    /// `kernels/prompt/dequantize.cuh`.
    pub(super) fn shared(&self, storage: Storage) -> u32 {
        let layout = storage.layout();
        let (tokens, tiles, warps) = (self.tokens, self.tiles, self.threads / 32);
        let scales = super::narrow(layout.scales);
        // Units of what is multiplied for several at once, behind the stages.
        let ring = if self.stages > 6 { 16 } else { 8 };
        let (sums, in_ring) = match (layout.has_minimum, layout.head > 0) {
            (true, true) => (ring * (tokens * 8 + 32 + tiles * scales + 32), scales),
            (true, false) => (ring * (tokens * 8 + 32), 0),
            (false, _) => (0, 0),
        };
        // Scales that are not halves alone become numbers, and their minima pairs of bf16, once for all lanes of a warp.
        let made = match layout.block_columns {
            Some(columns) if layout.has_minimum || layout.head > 0 => {
                let scales = self.units * self.rows * 4 * 64 / super::narrow(columns);
                let minima = if layout.has_minimum {
                    8 * (2 * self.rows + 8)
                } else {
                    0
                };
                warps * (scales + minima)
            }
            _ => 0,
        };
        let unit = super::narrow(layout.unit() + layout.head) - in_ring;
        self.stages * (tokens * 128 + tiles * unit).next_multiple_of(128) + sums + made
    }

    /// Of that shape in its kernel which takes most.
    pub(super) fn most_shared(&self, storage: Storage) -> u32 {
        let beside = self.beside.map(|index| &SHAPES[index]);
        let beside = beside.filter(|beside| beside.suits(storage));
        let others = beside.map_or(0, |beside| beside.shared(storage));
        self.shared(storage).max(others)
    }

    /// Its ways through `rows` inputs and so many tiles of weights, with what they cost; none where there is no kernel of it.
    fn ways(
        &'static self,
        (storage, gates): (Storage, bool),
        (rows, tiles): (u32, u32),
        multiprocessors: u32,
    ) -> impl Iterator<Item = (Way, f32)> {
        let suits = self.suits(storage) && (self.gates || !gates);
        let cost = self.costs(storage).filter(|_| suits);
        let [tokens, weights] = [rows.div_ceil(self.tokens), tiles.div_ceil(self.tiles)];
        let beside = self.beside.map(|index| &SHAPES[index]);
        let alike = cost.map(|cost| {
            // The larger of two shapes comes first in their kernel.
            let comes_second = beside.is_some_and(|beside| beside.tokens > self.tokens);
            let way = Way {
                grid: [tokens, weights, 1],
                whole: if comes_second { 0 } else { weights },
                along: tokens,
            };
            (way, cost.of_blocks(tokens * weights, multiprocessors))
        });
        let smaller = beside.filter(|beside| beside.tokens < self.tokens);
        let ended = cost.zip(smaller).and_then(|(cost, smaller)| {
            let whole = tokens * weights / multiprocessors * multiprocessors / tokens;
            let along = self.tokens / smaller.tokens;
            let more = (weights - whole) * along * (self.tiles / smaller.tiles);
            let way = Way {
                grid: [tokens, whole + more, 1],
                whole,
                along: tokens * along,
            };
            // They run beside the others, which takes half as long as alone.
            let last = smaller.costs(storage)?.alone / 2.0;
            let cost = cost.of_blocks(whole * tokens, multiprocessors) + last;
            (whole > 0 && more * tokens <= multiprocessors).then_some((way, cost))
        });
        alike.into_iter().chain(ended)
    }
}

/// Blocks that a product is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) grid: [u32; 3],
    /// Of a kernel of two shapes: so many along the weights have the larger one.
    pub(super) whole: u32,
    /// How many of the smaller one there are along the tokens.
    pub(super) along: u32,
}

/// The quickest shape and way for `rows` inputs and so many tiles of weights, which are gate and up or something else.
pub(super) fn quickest(
    of: (Storage, bool),
    problem: (u32, u32),
    multiprocessors: u32,
) -> Option<(usize, Way)> {
    let shapes = SHAPES.iter().enumerate();
    let ways = shapes.flat_map(|(index, shape)| {
        let ways = shape.ways(of, problem, multiprocessors);
        ways.map(move |(way, cost)| (index, way, cost))
    });
    ways.min_by(|(_, _, a), (_, _, b)| a.total_cmp(b))
        .map(|(index, way, _)| (index, way))
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
            let (index, way) =
                quickest((storage, gates), (rows, weights / 16), multiprocessors).unwrap();
            if index == 0 && way.whole < way.grid[1] {
                let (more, along) = (way.grid[1] - way.whole, rows.div_ceil(64) * 2);
                assert_eq!((weights / 16 - way.whole * 8) * 2, more * 4);
                assert_eq!(way.along, along);
                return "64x128 and 32x64";
            }
            SHAPES[index].name
        };
        assert_eq!(chosen(Format::F16, 2048, 19456, 132), "128x128");
        assert_eq!(chosen(Format::F16, 512, 19456, 132), "128x128");
        // A turn of 132 blocks, and 28 that would have one to themselves.
        assert_eq!(chosen(Format::F16, 512, 2560, 132), "64x128 and 32x64");
        assert_eq!(chosen(Format::Q4_0, 512, 19456, 132), "64x128 and 32x64");
        assert_eq!(chosen(Format::F16, 2048, 2560, 132), "64x128");
        // What `check/` multiplies so, for it to be held against the CPU.
        assert_eq!(chosen(Format::F16, 250, 25_344, 132), "128x128");
        assert_eq!(chosen(Format::F16, 256, 2560, 132), "64x80");
        assert_eq!(chosen(Format::F16, 384, 2560, 132), "64x64");
        assert_ne!(chosen(Format::F16, 256, 19456, 132), "64x80");
        assert_eq!(chosen(Format::F16, 64, 2560, 132), "32x64");
        assert_eq!(chosen(Format::F32, 2048, 19456, 132), "64x64");
        assert_eq!(chosen(Format::Q4_0, 2048, 19456, 132), "64x128");
        assert_eq!(chosen(Format::Q4_0, 512, 2560, 132), "64x128 and 32x64");
        assert_eq!(chosen(Format::Q4_0, 256, 2560, 132), "32x64");
        assert_eq!(chosen(Format::Q4_0, 16, 6144, 132), "16x32");
        assert_eq!(chosen(Format::Q4_0, 512, 2560, 16), "64x128");
    }
}
