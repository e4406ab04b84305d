//! The cache: pages of `PAGE` positions, each with K and V of all layers, and which of them each conversation has.
//!
//! Kernels find a page by its conversation's table, so nothing that is recorded depends on where pages lie, nor on which of
//! them have memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use crate::device::{Arena, Context, Error, MemoryKind, Plan, Region, Ring, Rows, Stream};
use crate::tape::{KvInfo, KvType, PAGE};

/// Pages that are on their way at once, to the host or from there: one is copied while another is taken.
const ON_THE_WAY: usize = 2;

#[derive(Debug)]
pub(super) struct Pages {
    arena: Arena,
    kv: KvInfo,
    /// All pages, then nobody's: what a table has beyond a conversation's own, so that a step which was launched ahead of an
    /// answer's end writes to no other's.
    held: Vec<Region>,
    /// Each conversation's table is whole, by place in `held`.
    tables: Vec<Vec<usize>>,
    /// How many of them are its own.
    own: Vec<usize>,
    /// Pages on their way to the host, or from there.
    passing: Ring,
    /// So many positions are wanted of each that goes to the host.
    wanted: VecDeque<usize>,
}

impl Pages {
    pub(super) fn plan(kv: KvInfo) -> Result<(Plan, Vec<Region>), Error> {
        let mut plan = Plan::new();
        let mut regions = Vec::with_capacity(kv.pages + 1);
        for page in 0..=kv.pages {
            // Nobody's page is in no chunk that may be given back.
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
        // Written once, so that memory which is only promised is there before anyone relies on it.
        for page in &held {
            arena.set(*page, 0, stream)?;
        }
        stream.synchronize()?;
        // Each conversation has pages of its own, as far as they go.
        let (each, nobodys) = (kv.pages_each(), kv.pages);
        let pages = |entry: usize| (entry * each..(entry + 1) * each).map(|page| page.min(nobodys));
        let own = |entry: usize| nobodys.saturating_sub(entry * each).min(each);
        Ok(Self {
            arena,
            kv,
            held,
            tables: (0..kv.entries)
                .map(|entry| pages(entry).collect())
                .collect(),
            own: (0..kv.entries).map(own).collect(),
            passing: Ring::new(context, kv.page_bytes(), ON_THE_WAY)?,
            wanted: VecDeque::with_capacity(ON_THE_WAY),
        })
    }

    /// Gives a conversation these pages and no others; returns which places of its table have changed.
    pub(super) fn seat(&mut self, entry: usize, pages: &[usize]) -> Range<usize> {
        let nobodys = self.kv.pages;
        self.own[entry] = pages.len();
        let wanted = pages.iter().copied().chain(std::iter::repeat(nobodys));
        let mut changed: Option<Range<usize>> = None;
        for (index, (page, wanted)) in self.tables[entry].iter_mut().zip(wanted).enumerate() {
            if std::mem::replace(page, wanted) != wanted {
                let first = changed.map_or(index, |range| range.start);
                changed = Some(first..index + 1);
            }
        }
        changed.unwrap_or(0..0)
    }

    /// The pages of a conversation's own that come before the first of these chunks.
    pub(super) fn before(&self, entry: usize, chunks: &[usize]) -> Vec<usize> {
        let own = self.tables[entry].iter().take(self.own[entry]);
        let stays = |page: &&usize| !chunks.contains(&(**page / self.kv.chunk));
        own.take_while(stays).copied().collect()
    }

    /// Frees the memory of chunks, where no table leads any more. The stream has been synchronized.
    pub(super) fn give_back(&mut self, chunks: &[usize], stream: &mut Stream) -> Result<(), Error> {
        let idle = stream.idle()?;
        for page in chunks.iter().flat_map(|chunk| self.kv.pages_of(*chunk)) {
            self.arena.give_back(self.held[page], &idle)?;
        }
        Ok(())
    }

    /// Allocates a chunk that was given back.
    pub(super) fn allocate(&mut self, chunk: usize, stream: &mut Stream) -> Result<(), Error> {
        for page in self.kv.pages_of(chunk) {
            self.arena.allocate(self.held[page], stream)?;
            // Memory that is only promised is there before anyone relies on it.
            self.arena.set(self.held[page], 0, stream)?;
        }
        Ok(())
    }

    /// Pages of a table.
    pub(super) fn each(&self) -> usize {
        self.kv.pages_each()
    }

    /// Positions that a conversation has pages for.
    pub(super) fn capacity(&self, entry: usize) -> usize {
        (self.own[entry] * PAGE).min(self.kv.context)
    }

    /// Where a place of a conversation's table leads.
    pub(super) fn address(&self, entry: usize, index: usize) -> Result<u64, Error> {
        self.arena.address(self.held[self.tables[entry][index]])
    }

    /// The addresses of all tables, one after the other.
    pub(super) fn addresses(&self) -> Result<Vec<u64>, Error> {
        let pages = self.tables.iter().flatten();
        pages
            .map(|page| self.arena.address(self.held[*page]))
            .collect()
    }

    /// Where a layer's K and V lie within a page: values (heads, `PAGE`, head_dim), then scales (heads, `PAGE`, blocks) if they are
    /// quants. Whatever the type, they begin at a multiple of 16.
    pub(super) fn within(&self, layer: usize) -> [u64; 2] {
        self.kv.sides_of(layer).map(|begin| begin as u64)
    }

    /// Queues that what a page holds is copied to another.
    pub(super) fn copy(
        &mut self,
        from: usize,
        to: usize,
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let bytes = self.kv.page_bytes();
        let whole = Rows {
            pitch: bytes,
            bytes,
            count: 1,
        };
        let [from, to] = [from, to].map(|page| self.held[page]);
        self.arena.copy(from, to, whole, stream)
    }

    /// Queues that a page's first positions are read, after all that the stream holds; false where too many are on their way.
    pub(super) fn send(
        &mut self,
        page: usize,
        positions: usize,
        stream: &mut Stream,
    ) -> Result<bool, Error> {
        let sent = self.passing.read(&self.arena, self.held[page], stream)?;
        self.wanted.extend(sent.then_some(positions));
        Ok(sent)
    }

    /// The oldest of these, once it is there; zeros for other positions, which may still hold what was another's.
    pub(super) fn take_sent(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut page) = self.passing.take()? else {
            return Ok(None);
        };
        let positions = self.wanted.pop_front().unwrap_or(0);
        let KvInfo {
            layers,
            heads,
            head_dim,
            types,
            ..
        } = self.kv;
        let mut rest = page.as_mut_slice();
        for element in (0..layers).flat_map(|_| types.sides()) {
            for length in element.parts(head_dim) {
                let (part, others) = rest.split_at_mut(heads * PAGE * length);
                for head in part.chunks_exact_mut((PAGE * length).max(1)) {
                    head[positions * length..].fill(0);
                }
                rest = others;
            }
        }
        Ok(Some(page))
    }

    /// Those that are on their way to the host are nobody's.
    pub(super) fn forget_sent(&mut self) {
        self.passing.forget();
        self.wanted.clear();
    }

    /// Queues that a page is to hold what was taken of one, after all that the stream holds; false where too many are on their way.
    pub(super) fn write_page(
        &mut self,
        page: usize,
        bytes: &[u8],
        stream: &mut Stream,
    ) -> Result<bool, Error> {
        let Self {
            arena,
            held,
            passing,
            ..
        } = self;
        passing.write(arena, held[page], bytes, stream)
    }

    /// Gives each conversation other pages, in no order.
    pub(super) fn scatter(&mut self, mut random: impl FnMut(usize) -> usize) {
        let mut order: Vec<usize> = (0..self.kv.pages).collect();
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
        entry: usize,
        sides: &[Vec<u8>; 2],
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let mut bytes = vec![0xff; self.kv.page_bytes()];
        for index in 0..self.tables[entry].len() {
            for (side, values) in sides.iter().enumerate() {
                let begin = self.kv.sides_of(0)[side];
                let element = self.kv.types.sides()[side];
                let side = &mut bytes[begin..];
                self.runs((index, element), |within, whole, length| {
                    side[within..within + length].copy_from_slice(&values[whole..whole + length]);
                });
            }
            let page = self.held[self.tables[entry][index]];
            self.arena.write(page, &bytes, stream)?;
        }
        Ok(())
    }

    pub(super) fn read(&self, entry: usize, stream: &mut Stream) -> Result<[Vec<u8>; 2], Error> {
        let KvInfo {
            heads,
            head_dim,
            context,
            types,
            ..
        } = self.kv;
        let whole = |element: KvType| vec![0; context * heads * element.bytes(head_dim)];
        let mut sides = types.sides().map(whole);
        let mut bytes = vec![0; self.kv.page_bytes()];
        for index in 0..self.tables[entry].len() {
            let page = self.held[self.tables[entry][index]];
            self.arena.read(page, &mut bytes, stream)?;
            for (side, values) in sides.iter_mut().enumerate() {
                let element = types.sides()[side];
                let side = &bytes[self.kv.sides_of(0)[side]..];
                self.runs((index, element), |within, whole, length| {
                    values[whole..whole + length].copy_from_slice(&side[within..within + length]);
                });
            }
        }
        Ok(sides)
    }

    /// Of values and scales of each head and position, where they begin in a side of a page and in the whole, and how many
    /// bytes they are.
    fn runs(&self, (index, element): (usize, KvType), mut each: impl FnMut(usize, usize, usize)) {
        let KvInfo {
            heads,
            head_dim,
            context,
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
