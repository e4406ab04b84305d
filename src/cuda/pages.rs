//! The cache: pages of `PAGE` positions, each with K and V of all layers, and which of them each conversation has.
//!
//! Kernels find a page by its conversation's table, so nothing that is recorded depends on where pages lie.

use std::rc::Rc;

use crate::device::{Arena, Context, Error, Memory, Plan, Region, Rows, Stream};
use crate::tape::{KvInfo, PAGE};

/// How many a conversation's table has.
pub(super) fn of_conversation(kv: KvInfo) -> usize {
    kv.context.div_ceil(PAGE)
}

#[derive(Debug)]
pub(super) struct Pages {
    arena: Arena,
    kv: KvInfo,
    held: Vec<Region>,
    /// Of each conversation, by place in `held`.
    tables: Vec<Vec<usize>>,
}

impl Pages {
    pub(super) fn plan(kv: KvInfo) -> Result<(Plan, Vec<Region>), Error> {
        let mut plan = Plan::new();
        let bytes = kv.bytes_per_position() * PAGE;
        let regions: Result<_, _> = (0..kv.slots * of_conversation(kv))
            .map(|_| plan.add(bytes))
            .collect();
        regions.map(|regions| (plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        memory: Memory,
        kv: KvInfo,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, held) = Self::plan(kv)?;
        let mut arena = Arena::new(context, memory, &plan)?;
        arena.attach(stream)?;
        // Written once, so that memory which is only promised is there before anyone relies on it.
        for page in &held {
            arena.set(*page, 0, stream)?;
        }
        stream.synchronize()?;
        let each = of_conversation(kv);
        let tables = (0..kv.slots).map(|slot| (slot * each..(slot + 1) * each).collect());
        Ok(Self {
            arena,
            kv,
            held,
            tables: tables.collect(),
        })
    }

    /// The addresses of all tables, one after the other.
    pub(super) fn addresses(&self) -> Result<Vec<u64>, Error> {
        let pages = self.tables.iter().flatten();
        pages
            .map(|page| self.arena.address(self.held[*page]))
            .collect()
    }

    /// Where a layer's K and V lie within a page.
    pub(super) fn within(&self, layer: usize) -> [u64; 2] {
        let side = self.side_bytes();
        [2 * layer, 2 * layer + 1].map(|index| (index * side) as u64)
    }

    /// Bytes of a layer's K or V in a page: values (heads, `PAGE`, head_dim), then scales (heads, `PAGE`, blocks) if they
    /// are quants. Whatever the type, it is a multiple of 16.
    fn side_bytes(&self) -> usize {
        self.kv.bytes_per_position() / 2 / self.kv.layers * PAGE
    }

    /// Queues that the pages with the first positions of one conversation are copied to another's.
    pub(super) fn copy(
        &mut self,
        from: usize,
        to: usize,
        positions: usize,
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let bytes = self.kv.bytes_per_position() * PAGE;
        let whole = Rows {
            pitch: bytes,
            bytes,
            count: 1,
        };
        for index in 0..positions.div_ceil(PAGE) {
            let [from, to] = [from, to].map(|of| self.held[self.tables[of][index]]);
            self.arena.copy(from, to, whole, stream)?;
        }
        Ok(())
    }

    /// Gives each conversation other pages, in no order.
    pub(super) fn scatter(&mut self, mut random: impl FnMut(usize) -> usize) {
        let mut order: Vec<usize> = (0..self.held.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random(last + 1));
        }
        for (page, at) in self.tables.iter_mut().flatten().zip(order) {
            *page = at;
        }
    }

    /// K and V of the first layer of a conversation, each (head, position) as `KvType` encodes a head, from or into pages.
    pub(super) fn write(
        &mut self,
        slot: usize,
        sides: &[Vec<u8>; 2],
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let mut bytes = vec![0xff; self.kv.bytes_per_position() * PAGE];
        for index in 0..self.tables[slot].len() {
            for (side, values) in sides.iter().enumerate() {
                let side = &mut bytes[side * self.side_bytes()..];
                self.runs(index, |within, whole, length| {
                    side[within..within + length].copy_from_slice(&values[whole..whole + length]);
                });
            }
            let page = self.held[self.tables[slot][index]];
            self.arena.write(page, &bytes, stream)?;
        }
        Ok(())
    }

    pub(super) fn read(&self, slot: usize, stream: &mut Stream) -> Result<[Vec<u8>; 2], Error> {
        let position = self.kv.bytes_per_position() / 2 / self.kv.layers;
        let mut sides = [(); 2].map(|()| vec![0; self.kv.context * position]);
        let mut bytes = vec![0; self.kv.bytes_per_position() * PAGE];
        for index in 0..self.tables[slot].len() {
            let page = self.held[self.tables[slot][index]];
            self.arena.read(page, &mut bytes, stream)?;
            for (side, values) in sides.iter_mut().enumerate() {
                let side = &bytes[side * self.side_bytes()..];
                self.runs(index, |within, whole, length| {
                    values[whole..whole + length].copy_from_slice(&side[within..within + length]);
                });
            }
        }
        Ok(sides)
    }

    /// Of values and scales of each head and position, where they begin in a side of a page and in the whole, and how many
    /// bytes they are.
    fn runs(&self, index: usize, mut each: impl FnMut(usize, usize, usize)) {
        let KvInfo {
            heads,
            head_dim,
            context,
            element,
            ..
        } = self.kv;
        let (parts, position) = (element.parts(head_dim), element.bytes(head_dim));
        for head in 0..heads {
            for at in 0..(context - index * PAGE).min(PAGE) {
                let mut whole = (head * context + index * PAGE + at) * position;
                let mut before = 0;
                for length in parts {
                    each(before + (head * PAGE + at) * length, whole, length);
                    before += heads * PAGE * length;
                    whole += length;
                }
            }
        }
    }
}
