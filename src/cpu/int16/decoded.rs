//! Rows of a weight as 16-bit integers: they are unpacked once, and multiplied with every row of a prompt.

use super::machine::{Machine, Pairs, SUMS};
use super::panels::in_blocks;
use crate::cpu::weight::Matrix;
use crate::quant::{Blocks, Integers, Long, SHORT, Short};

/// The `Pairs` of a long block.
pub(super) const PARTS: usize = 8;

/// Bands of `rows` rows of a weight each. The blocks of a band's rows alternate.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// (bands, spans, rows): the products of long blocks' integers and their integer factors.
    pub(super) long: Vec<[Pairs; PARTS]>,
    /// (bands, spans, rows)
    pub(super) scales: Vec<f32>,
    /// (bands, spans, rows), or empty
    pub(super) addends: Vec<[f32; SUMS]>,
    /// The columns of a group of a long block.
    pub(super) group: usize,
    /// Whether the integers of long blocks are at most 1024.
    pub(super) are_small: bool,
    /// (bands, spans, rows): each with the columns of a short block, those with even numbers first.
    pub(super) short: Vec<[Pairs; SHORT]>,
    /// (bands, spans, rows)
    pub(super) short_scales: Vec<[f32; SHORT]>,
    /// (bands, spans, rows), or empty
    pub(super) short_addends: Vec<[f32; SHORT]>,
}

impl Decoded {
    /// Decodes `count` rows from `first` on, in bands of `rows`. The rest of the last band has any numbers.
    #[inline(always)]
    pub(super) fn fill<M: Machine>(
        &mut self,
        machine: M,
        weight: &Matrix,
        (first, count): (usize, usize),
        (rows, spans): (usize, usize),
    ) {
        let blocks = count.div_ceil(rows) * rows * spans;
        if weight.span() == Some(256) {
            self.long.resize(blocks, [[0; SUMS]; PARTS]);
            self.scales.resize(blocks, 0.0);
        } else {
            self.short.resize(blocks, [[0; SUMS]; SHORT]);
            self.short_scales.resize(blocks, [0.0; SHORT]);
        }
        self.addends.clear();
        self.short_addends.clear();
        for row in 0..count {
            let mut filling = Filling {
                machine,
                next: row / rows * rows * spans + row % rows,
                step: rows,
                blocks,
                to: self,
            };
            weight.spans(machine, first + row, &mut filling);
        }
    }
}

/// Writes the blocks of a row.
struct Filling<'a, M> {
    machine: M,
    /// The place of the next block, and the distance of places.
    next: usize,
    step: usize,
    /// The number of places.
    blocks: usize,
    to: &'a mut Decoded,
}

impl<M: Machine> Blocks<M> for Filling<'_, M> {
    #[inline(always)]
    fn long(&mut self, factors: &Long, integers: impl Integers<M, 4>) {
        let Self {
            machine, next, to, ..
        } = self;
        let integers = integers.unpack(*machine);
        let pairs = &mut to.long[*next];
        for (at, pair) in pairs.as_chunks_mut().0.iter_mut().enumerate() {
            let by = machine.factors(&factors.scales, factors.columns, at);
            let [even, odd] = machine.scaled(integers[at], by);
            *pair = [machine.pairs(even), machine.pairs(odd)];
        }
        to.scales[*next] = factors.scale;
        to.group = factors.columns;
        to.are_small = factors.are_small;
        if let Some((minimum, minima)) = &factors.minima {
            to.addends.resize(self.blocks, [0.0; SUMS]);
            to.addends[*next] = machine.numbers(machine.addends(*minimum, minima));
        }
        *next += self.step;
    }

    #[inline(always)]
    fn short(&mut self, factors: &Short, integers: impl Integers<M, 2>) {
        let Self {
            machine, next, to, ..
        } = self;
        let integers = integers.unpack(*machine);
        let [a, b] = machine.weights(integers[0], factors.signed);
        let [c, d] = machine.weights(integers[1], factors.signed);
        to.short[*next] = in_blocks([
            machine.pairs(a),
            machine.pairs(b),
            machine.pairs(c),
            machine.pairs(d),
        ]);
        to.short_scales[*next] = factors.scales;
        if let Some(addends) = factors.addends {
            to.short_addends.resize(self.blocks, [0.0; SHORT]);
            to.short_addends[*next] = addends;
        }
        *next += self.step;
    }
}
