//! The key-value cache in host memory: pages, and the page table of each slot.

use std::ops::Range;

use super::softmax::TILE;
use crate::kv::PAGE;
use crate::tape::KvInfo;

// All positions of a tile are in one page.
const _: () = assert!(PAGE.is_multiple_of(TILE));

/// Pages of (layer, K or V, head, position). `KvType` encodes each head. The positions of a head are adjacent, because
/// attention reads them in that order.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) info: KvInfo,
    /// The pages of each chunk; empty if the chunk is released.
    chunks: Vec<Vec<u8>>,
    /// The pages of each slot, in the order of positions.
    tables: Vec<Vec<usize>>,
}

impl Cache {
    /// Creates a cache in which each slot has its own pages, as far as there are enough.
    pub(super) fn new(info: KvInfo) -> Self {
        let each = info.pages_each();
        let table = |slot: usize| slot * each..((slot + 1) * each).min(info.pages);
        Self {
            info,
            chunks: (0..info.chunks()).map(|chunk| zeros(info, chunk)).collect(),
            tables: (0..info.slots).map(|slot| table(slot).collect()).collect(),
        }
    }

    pub(super) fn set_pages(&mut self, slot: usize, pages: &[usize]) {
        let table = &mut self.tables[slot];
        table.clear();
        table.extend_from_slice(pages);
    }

    /// Frees the memory of chunks, and cuts each table before its first page there.
    pub(super) fn release(&mut self, chunks: &[usize]) {
        for table in &mut self.tables {
            let gone = |page: &usize| chunks.contains(&(page / self.info.chunk));
            table.truncate(table.iter().position(gone).unwrap_or(table.len()));
        }
        for chunk in chunks {
            self.chunks[*chunk] = Vec::new();
        }
    }

    pub(super) fn allocate(&mut self, chunk: usize) {
        if self.chunks[chunk].is_empty() {
            self.chunks[chunk] = zeros(self.info, chunk);
        }
    }

    fn page(&self, page: usize) -> &[u8] {
        let bytes = self.info.page_bytes();
        &self.chunks[page / self.info.chunk][page % self.info.chunk * bytes..][..bytes]
    }

    fn page_mut(&mut self, page: usize) -> &mut [u8] {
        let bytes = self.info.page_bytes();
        &mut self.chunks[page / self.info.chunk][page % self.info.chunk * bytes..][..bytes]
    }

    /// The number of positions for which a slot has pages.
    pub(super) fn capacity(&self, slot: usize) -> usize {
        (self.tables[slot].len() * PAGE).min(self.info.context)
    }

    pub(super) fn copy_page(&mut self, from: usize, to: usize) {
        let bytes = self.page(from).to_vec();
        self.page_mut(to).copy_from_slice(&bytes);
    }

    /// Copies the first positions of a page; the others are zero.
    pub(super) fn read_page(&self, page: usize, positions: usize, out: &mut [u8]) {
        out.copy_from_slice(self.page(page));
        let mut rest = out;
        for _ in 0..self.info.layers {
            for side in [0, 1] {
                let (sides, others) = rest.split_at_mut(self.info.side_bytes()[side]);
                for head in sides.chunks_exact_mut(PAGE * self.stride(side)) {
                    head[positions * self.stride(side)..].fill(0);
                }
                rest = others;
            }
        }
    }

    pub(super) fn write_page(&mut self, page: usize, bytes: &[u8]) {
        self.page_mut(page).copy_from_slice(bytes);
    }

    /// Bytes of K (0) or V (1) of one position of one head.
    fn stride(&self, side: usize) -> usize {
        self.info.types.sides()[side].bytes(self.info.head_dim)
    }

    /// The page that holds K (0) or V (1) of some positions of a head, and their bytes in it. All positions are in one
    /// page.
    fn place(
        &self,
        (slot, layer, head): (usize, usize, usize),
        side: usize,
        positions: Range<usize>,
    ) -> (usize, Range<usize>) {
        let page = self.tables[slot][positions.start / PAGE];
        let stride = self.stride(side);
        let begin = self.info.sides_of(layer)[side];
        let at = begin + (head * PAGE + positions.start % PAGE) * stride;
        (page, at..at + positions.len() * stride)
    }

    /// Stores rows of k and v, each (heads * head_dim), from `position` on.
    pub(super) fn store(
        &mut self,
        (slot, layer): (usize, usize),
        position: usize,
        k: &[f32],
        v: &[f32],
    ) {
        let KvInfo {
            heads,
            head_dim,
            types,
            ..
        } = self.info;
        for (side, (rows, element)) in [k, v].into_iter().zip(types.sides()).enumerate() {
            for (at, values) in (position..).zip(rows.chunks_exact(heads * head_dim)) {
                for (head, values) in values.chunks_exact(head_dim).enumerate() {
                    let (page, place) = self.place((slot, layer, head), side, at..at + 1);
                    element.encode(values, &mut self.page_mut(page)[place]);
                }
            }
        }
    }

    /// K and V of a tile of positions of a head, encoded. The last tile ends at `end`.
    pub(super) fn tile(&self, head: (usize, usize, usize), index: usize, end: usize) -> [&[u8]; 2] {
        let positions = index * TILE..end.min((index + 1) * TILE);
        [0, 1].map(|side| {
            let (page, place) = self.place(head, side, positions.clone());
            &self.page(page)[place]
        })
    }

    /// K and V of a layer in a slot, each (head, position).
    pub(super) fn read(&self, slot: usize, layer: usize) -> [Vec<u8>; 2] {
        [0, 1].map(|side| {
            let mut bytes = Vec::new();
            for (page, place) in self.places((slot, layer), side) {
                bytes.extend_from_slice(&self.page(page)[place]);
            }
            bytes
        })
    }

    /// Writes K and V of a layer in a slot, each (head, position).
    pub(super) fn write(&mut self, slot: usize, layer: usize, sides: &[Vec<u8>; 2]) {
        for (side, bytes) in sides.iter().enumerate() {
            let mut bytes = bytes.as_slice();
            for (page, place) in self.places((slot, layer), side).collect::<Vec<_>>() {
                let (own, others) = bytes.split_at(place.len());
                self.page_mut(page)[place].copy_from_slice(own);
                bytes = others;
            }
        }
    }

    /// The pages and byte ranges of all positions in a slot, by head and page.
    fn places(
        &self,
        (slot, layer): (usize, usize),
        side: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let context = self.info.context;
        let heads = 0..self.info.heads;
        heads.flat_map(move |head| {
            let starts = (0..context).step_by(PAGE);
            starts.map(move |start| {
                let positions = start..(start + PAGE).min(context);
                self.place((slot, layer, head), side, positions)
            })
        })
    }
}

/// The bytes of a chunk. The system allocates them on first write.
fn zeros(info: KvInfo, chunk: usize) -> Vec<u8> {
    vec![0; info.pages_of(chunk).len() * info.page_bytes()]
}
