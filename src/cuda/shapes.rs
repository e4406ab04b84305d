//! The tile shapes of a prompt's product, which `kernels/prompt/shapes.cuh` defines, and the selection of one.
//!
//! The choice does not change the bits, so it may depend on the device. Large tiles read their inputs least often, but
//! leave most of the device idle for a small problem.

use crate::quant::Storage;

/// The tile of a block, and its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileShape {
    pub(super) name: &'static str,
    pub(super) tokens: u32,
    /// The number of tiles of 16 weight rows in a block.
    pub(super) tiles: u32,
    pub(super) threads: u32,
    stages: u32,
    /// For each warp: its rows of weights, and the units of 64 columns that it multiplies at a time.
    rows: u32,
    units: u32,
    /// Whether it multiplies gate and up together.
    gates: bool,
    /// The partner: the other shape in the same kernel, with as many threads.
    partner: Option<usize>,
    plain: Cost,
    /// `None` if there are no kernels for formats with blocks.
    blocks: Option<Cost>,
}

/// The time for 64 columns of one tile if a multiprocessor has many tiles, and if it has one, measured on an H100 with
/// f16 and with Q4_0 in microseconds.
///
/// Only the ratios matter. Except for 128x128, `alone` was measured with earlier kernels and scaled as `among`. 64x80
/// and 32x64 have a surcharge on their largest problems, because they are for small ones.
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

pub(super) const SHAPES: [TileShape; 6] = [
    TileShape {
        name: "64x128",
        tokens: 64,
        tiles: 8,
        threads: 128,
        stages: 3,
        rows: 32,
        units: 1,
        gates: true,
        partner: Some(3),
        plain: Cost::of(0.345, 0.446),
        blocks: Some(Cost::of(0.43, 0.636)),
    },
    TileShape {
        name: "64x64",
        tokens: 64,
        tiles: 4,
        threads: 128,
        stages: 4,
        rows: 32,
        units: 1,
        gates: true,
        partner: None,
        plain: Cost::of(0.22, 0.274),
        blocks: Some(Cost::of(0.272, 0.397)),
    },
    TileShape {
        name: "64x80",
        tokens: 64,
        tiles: 5,
        threads: 128,
        stages: 4,
        rows: 80,
        units: 1,
        gates: false,
        partner: None,
        plain: Cost::of(0.305, 0.37),
        blocks: None,
    },
    TileShape {
        name: "32x64",
        tokens: 32,
        tiles: 4,
        threads: 128,
        stages: 6,
        rows: 16,
        units: 2,
        gates: true,
        partner: Some(0),
        plain: Cost::of(0.159, 0.175),
        blocks: Some(Cost::of(0.148, 0.17)),
    },
    TileShape {
        name: "16x32",
        tokens: 16,
        tiles: 2,
        threads: 64,
        stages: 8,
        rows: 16,
        units: 2,
        gates: true,
        partner: None,
        plain: Cost::of(0.068, 0.143),
        blocks: Some(Cost::of(0.051, 0.128)),
    },
    TileShape {
        name: "128x128",
        tokens: 128,
        tiles: 8,
        threads: 128,
        stages: 3,
        rows: 64,
        units: 1,
        gates: true,
        partner: None,
        plain: Cost::of(0.6, 0.68),
        blocks: None,
    },
];

impl TileShape {
    /// Whether there is a kernel: weights of four bytes leave no room for the largest shape.
    pub(super) fn suits(&self, storage: Storage) -> bool {
        self.costs(storage).is_some() && (storage.layout().quants <= 2048 || self.tiles < 5)
    }

    /// The end of its kernel's name. A kernel with two shapes has both in its name.
    pub(super) fn kernel(&self, storage: Storage) -> String {
        let partner = self.partner.map(|index| &SHAPES[index]);
        match partner.filter(|partner| partner.suits(storage)) {
            Some(partner) if partner.tokens < self.tokens => {
                format!("{}_{}", self.name, partner.name)
            }
            Some(partner) => format!("{}_{}", partner.name, self.name),
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
        let scales = super::narrow::narrow(layout.scales);
        // The units of several products are stored after the stages.
        let ring = if self.stages > 6 { 16 } else { 8 };
        let (sums, in_ring) = match (layout.needs_sums(), layout.head > 0) {
            (true, true) => (ring * (tokens * 8 + 32 + tiles * scales + 32), scales),
            (true, false) => (ring * (tokens * 8 + 32), 0),
            (false, _) => (0, 0),
        };
        // Scales other than plain halves become numbers, and their minima pairs of bf16, once for all lanes of a warp.
        let made = match layout.block_columns {
            Some(_) if layout.has_minimum && !layout.needs_sums() => 0,
            Some(columns) if layout.has_minimum || layout.head > 0 => {
                let scales = self.units * self.rows * 4 * 64 / super::narrow::narrow(columns);
                let minima = if layout.has_minimum {
                    8 * (2 * self.rows + 8)
                } else {
                    0
                };
                warps * (scales + minima)
            }
            _ => 0,
        };
        let unit = super::narrow::narrow(layout.unit() + layout.head) - in_ring;
        self.stages * (tokens * 128 + tiles * unit).next_multiple_of(128) + sums + made
    }

    /// The shared memory of the kernel: the larger of its two shapes.
    pub(super) fn most_shared(&self, storage: Storage) -> u32 {
        let partner = self.partner.map(|index| &SHAPES[index]);
        let partner = partner.filter(|partner| partner.suits(storage));
        let others = partner.map_or(0, |partner| partner.shared(storage));
        self.shared(storage).max(others)
    }

    /// The ways to multiply `rows` inputs with a number of tiles, and their costs. There are none without a kernel.
    fn ways(
        &'static self,
        (storage, gates): (Storage, bool),
        (rows, tiles): (u32, u32),
        multiprocessors: u32,
    ) -> impl Iterator<Item = (Way, f32)> {
        let suits = self.suits(storage) && (self.gates || !gates);
        let cost = self.costs(storage).filter(|_| suits);
        let [tokens, weights] = [rows.div_ceil(self.tokens), tiles.div_ceil(self.tiles)];
        let partner = self.partner.map(|index| &SHAPES[index]);
        let alike = cost.map(|cost| {
            // The larger of two shapes is the first in their kernel.
            let comes_second = partner.is_some_and(|partner| partner.tokens > self.tokens);
            let way = Way {
                grid: [tokens, weights, 1],
                whole: if comes_second { 0 } else { weights },
                along: tokens,
            };
            (way, cost.of_blocks(tokens * weights, multiprocessors))
        });
        let smaller = partner.filter(|partner| partner.tokens < self.tokens);
        let ended = cost.zip(smaller).and_then(|(cost, smaller)| {
            let whole = tokens * weights / multiprocessors * multiprocessors / tokens;
            let along = self.tokens / smaller.tokens;
            let more = (weights - whole) * along * (self.tiles / smaller.tiles);
            let way = Way {
                grid: [tokens, whole + more, 1],
                whole,
                along: tokens * along,
            };
            // Blocks of both shapes run together, which takes half as long as alone.
            let last = smaller.costs(storage)?.alone / 2.0;
            let cost = cost.of_blocks(whole * tokens, multiprocessors) + last;
            (whole > 0 && more * tokens <= multiprocessors).then_some((way, cost))
        });
        alike.into_iter().chain(ended)
    }
}

/// The blocks of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) grid: [u32; 3],
    /// For a kernel of two shapes, the number of blocks of the larger shape along the weights.
    pub(super) whole: u32,
    /// The number of blocks of the smaller shape along the tokens.
    pub(super) along: u32,
}

/// The fastest shape and way for `rows` inputs and a number of tiles of weights. `gates` says whether they are gate and
/// up.
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
    fn large_problems_have_large_tiles_and_small_ones_have_small_tiles() {
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
        // A turn of 132 blocks, and 28 that would otherwise have a turn of their own.
        assert_eq!(chosen(Format::F16, 512, 2560, 132), "64x128 and 32x64");
        assert_eq!(chosen(Format::Q4_0, 512, 19456, 132), "64x128 and 32x64");
        assert_eq!(chosen(Format::F16, 2048, 2560, 132), "64x128");
        // A problem in `check/`, so that this shape is compared with the CPU.
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
