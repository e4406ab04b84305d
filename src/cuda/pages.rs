//! The cache on a device: pages of `PAGE` positions, each with K and V of a group of layers, and the page tables of
//! each slot.
//!
//! Kernels find a page in the slot's table, so recordings do not depend on the addresses of pages or on which of them
//! have memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use crate::device::{Arena, Context, Error, MemoryKind, Plan, Region, Ring, RowSpans, Stream};
use crate::kv::{KvType, PAGE};
use crate::tape::{CacheLayer, KvHeads, KvInfo};

/// Pages in flight to or from the host: one is copied while another is taken.
const IN_FLIGHT: usize = 2;

#[derive(Debug)]
pub(super) struct Pages {
    arena: Arena,
    kv: KvInfo,
    /// The regions of all pages, then that of a spare page. Tables continue with the spare page after a slot's own
    /// pages, so that a step beyond the end of an answer writes to no other slot.
    held: Vec<Region>,
    /// Each slot's tables, one group of layers after another, filled up with the spare page; elements are indices of
    /// `held`.
    tables: Vec<Vec<usize>>,
    /// The number of elements of each slot's tables that are its own.
    own: Vec<usize>,
    /// Pages in flight to or from the host.
    in_flight: Ring,
    /// The group and the number of positions to copy of each page in flight to the host.
    wanted: VecDeque<(usize, usize)>,
}

impl Pages {
    pub(super) fn plan(kv: KvInfo) -> Result<(Plan, Vec<Region>), Error> {
        let mut plan = Plan::new();
        let mut regions = Vec::with_capacity(kv.pages + 1);
        for page in 0..=kv.pages {
            // The spare page is not in a chunk that can be released.
            if page.is_multiple_of(kv.chunk) || page == kv.pages {
                plan.end_chunk();
            }
            regions.push(plan.add(kv.page_bytes())?);
        }
        Ok((plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        memory: MemoryKind,
        kv: KvInfo,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, held) = Self::plan(kv)?;
        let mut arena = Arena::new(context, memory, &plan)?;
        arena.attach(stream)?;
        // Memory is written once, so that the driver cannot fail to provide it later.
        for page in &held {
            arena.set(*page, 0, stream)?;
        }
        stream.synchronize()?;
        // Each slot starts with its own pages, as far as there are enough.
        let (each, spare) = (kv.blocks() * kv.groups(), kv.pages);
        let pages = |slot: usize| (slot * each..(slot + 1) * each).map(|page| page.min(spare));
        let last = each - kv.blocks();
        let own = |slot: usize| spare.saturating_sub(slot * each + last).min(kv.blocks());
        Ok(Self {
            arena,
            kv,
            held,
            tables: (0..kv.slots).map(|slot| pages(slot).collect()).collect(),
            own: (0..kv.slots).map(own).collect(),
            in_flight: Ring::new(context, kv.page_bytes(), IN_FLIGHT)?,
            wanted: VecDeque::with_capacity(IN_FLIGHT),
        })
    }

    /// Sets the tables of a slot. Returns their elements that have changed.
    pub(super) fn set_pages(&mut self, slot: usize, tables: &[Vec<Option<usize>>]) -> Range<usize> {
        let (spare, blocks) = (self.kv.pages, self.kv.blocks());
        self.own[slot] = tables.iter().map(Vec::len).min().unwrap_or(0);
        let filled = |table: &'_ Vec<Option<usize>>| {
            let mut table: Vec<_> = table.iter().map(|page| page.unwrap_or(spare)).collect();
            table.resize(blocks, spare);
            table
        };
        let wanted = tables.iter().flat_map(filled);
        let wanted = wanted.chain(std::iter::repeat(spare));
        let mut changed: Option<Range<usize>> = None;
        for (index, (page, wanted)) in self.tables[slot].iter_mut().zip(wanted).enumerate() {
            if std::mem::replace(page, wanted) != wanted {
                let first = changed.map_or(index, |range| range.start);
                changed = Some(first..index + 1);
            }
        }
        changed.unwrap_or(0..0)
    }

    /// The tables of a slot before its first page in these chunks.
    pub(super) fn before(&self, slot: usize, chunks: &[usize]) -> Vec<Vec<Option<usize>>> {
        let own = self.tables[slot]
            .chunks(self.kv.blocks())
            .map(|table| &table[..self.own[slot]]);
        let is_gone =
            |page: &usize| *page < self.kv.pages && chunks.contains(&(*page / self.kv.chunk));
        let first = own
            .clone()
            .filter_map(|table| table.iter().position(is_gone))
            .min();
        let stays = first.unwrap_or(self.own[slot]);
        let page = |page: &usize| Some(*page).filter(|page| *page < self.kv.pages);
        own.map(|table| table[..stays].iter().map(page).collect())
            .collect()
    }

    /// Releases the memory of chunks that no table uses. The stream has been synchronized.
    pub(super) fn release(&mut self, chunks: &[usize], stream: &mut Stream) -> Result<(), Error> {
        let idle = stream.idle()?;
        for page in chunks.iter().flat_map(|chunk| self.kv.pages_of(*chunk)) {
            self.arena.release(self.held[page], &idle)?;
        }
        Ok(())
    }

    /// Allocates a released chunk.
    pub(super) fn allocate(&mut self, chunk: usize, stream: &mut Stream) -> Result<(), Error> {
        for page in self.kv.pages_of(chunk) {
            self.arena.allocate(self.held[page], stream)?;
            // Memory is written once, so that the driver cannot fail to provide it later.
            self.arena.set(self.held[page], 0, stream)?;
        }
        Ok(())
    }

    /// Elements of a slot's tables.
    pub(super) fn each(&self) -> usize {
        self.kv.blocks() * self.kv.groups()
    }

    /// The number of positions for which a slot has pages.
    pub(super) fn capacity(&self, slot: usize) -> usize {
        (self.own[slot] * PAGE).min(self.kv.context)
    }

    /// The address in an element of a slot's table.
    pub(super) fn address(&self, slot: usize, index: usize) -> Result<u64, Error> {
        self.arena.address(self.held[self.tables[slot][index]])
    }

    /// The address of a page.
    pub(super) fn address_of(&self, page: usize) -> Result<u64, Error> {
        self.arena.address(self.held[page])
    }

    /// The addresses of all tables, one after another.
    pub(super) fn addresses(&self) -> Result<Vec<u64>, Error> {
        let pages = self.tables.iter().flatten();
        pages
            .map(|page| self.arena.address(self.held[*page]))
            .collect()
    }

    /// The offsets of a layer's K and V in a page: values (heads, `PAGE`, head_dim), then scales (heads, `PAGE`,
    /// blocks) for quants. They are multiples of 16 for all types.
    pub(super) fn within(&self, layer: CacheLayer) -> [u64; 2] {
        self.kv.sides_of(layer).map(|begin| begin as u64)
    }

    /// Queues a copy from one page to another.
    pub(super) fn copy(
        &mut self,
        from: usize,
        to: usize,
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let bytes = self.kv.page_bytes();
        let whole = RowSpans {
            pitch: bytes,
            bytes,
            count: 1,
        };
        let [from, to] = [from, to].map(|page| self.held[page]);
        self.arena.copy(from, to, whole, stream)
    }

    /// Queues a copy of the first positions of a page of a group to the host. Returns false if too many are in flight.
    pub(super) fn send(
        &mut self,
        (page, group): (usize, usize),
        positions: usize,
        stream: &mut Stream,
    ) -> Result<bool, Error> {
        let sent = self.in_flight.read(&self.arena, self.held[page], stream)?;
        self.wanted.extend(sent.then_some((group, positions)));
        Ok(sent)
    }

    /// Returns the oldest page in flight if its copy has ended. Other positions become zero, because they may contain
    /// another conversation.
    pub(super) fn take_sent(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut page) = self.in_flight.take()? else {
            return Ok(None);
        };
        let (group, positions) = self.wanted.pop_front().unwrap_or((0, 0));
        for layer in self.kv.layers_of(group) {
            let KvHeads {
                heads,
                head_dim,
                types,
                ..
            } = self.kv.heads_of(layer);
            for (element, begin) in types.sides().into_iter().zip(self.kv.sides_of(layer)) {
                let mut rest = &mut page[begin..];
                for length in element.parts(head_dim) {
                    let (part, others) = rest.split_at_mut(heads * PAGE * length);
                    for head in part.chunks_exact_mut((PAGE * length).max(1)) {
                        head[positions * length..].fill(0);
                    }
                    rest = others;
                }
            }
        }
        Ok(Some(page))
    }

    /// Discards the pages in flight to the host.
    pub(super) fn discard_sent(&mut self) {
        self.in_flight.discard();
        self.wanted.clear();
    }

    /// Queues a copy of a page from the host. Returns false if too many are in flight.
    pub(super) fn write_page(
        &mut self,
        page: usize,
        bytes: &[u8],
        stream: &mut Stream,
    ) -> Result<bool, Error> {
        let Self {
            arena,
            held,
            in_flight,
            ..
        } = self;
        in_flight.write(arena, held[page], bytes, stream)
    }

    /// Gives each slot other pages, in random order.
    pub(super) fn scatter(&mut self, mut random: impl FnMut(usize) -> usize) {
        let mut order: Vec<usize> = (0..self.kv.pages).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random(last + 1));
        }
        for (page, at) in self.tables.iter_mut().flatten().zip(order) {
            *page = at;
        }
    }

    /// K and V of the first layer in a slot, each (head, position), to and from pages.
    pub(super) fn write(
        &mut self,
        slot: usize,
        sides: &[Vec<u8>; 2],
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let mut bytes = vec![0xff; self.kv.page_bytes()];
        for index in 0..self.tables[slot].len() {
            for (side, values) in sides.iter().enumerate() {
                let begin = self.kv.sides_of(CacheLayer::default())[side];
                let element = self.kv.types.sides()[side];
                let side = &mut bytes[begin..];
                self.runs((index, element), |within, whole, length| {
                    side[within..within + length].copy_from_slice(&values[whole..whole + length]);
                });
            }
            let page = self.held[self.tables[slot][index]];
            self.arena.write(page, &bytes, stream)?;
        }
        Ok(())
    }

    pub(super) fn read(&self, slot: usize, stream: &mut Stream) -> Result<[Vec<u8>; 2], Error> {
        let KvHeads {
            heads,
            head_dim,
            context,
            types,
        } = self.kv.heads_of(CacheLayer::default());
        let whole = |element: KvType| vec![0; context * heads * element.bytes(head_dim)];
        let mut sides = types.sides().map(whole);
        let mut bytes = vec![0; self.kv.page_bytes()];
        for index in 0..self.tables[slot].len() {
            let page = self.held[self.tables[slot][index]];
            self.arena.read(page, &mut bytes, stream)?;
            for (side, values) in sides.iter_mut().enumerate() {
                let element = types.sides()[side];
                let side = &bytes[self.kv.sides_of(CacheLayer::default())[side]..];
                self.runs((index, element), |within, whole, length| {
                    values[whole..whole + length].copy_from_slice(&side[within..within + length]);
                });
            }
        }
        Ok(sides)
    }

    /// For the values and the scales of each head and position: their offset in a side of a page and in the whole, and
    /// their bytes.
    fn runs(&self, (index, element): (usize, KvType), mut each: impl FnMut(usize, usize, usize)) {
        let KvHeads {
            heads,
            head_dim,
            context,
            ..
        } = self.kv.heads_of(CacheLayer::default());
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
