//! The key-value cache in host memory: pages, and which of them each conversation has.

use std::ops::Range;

use super::softmax::TILE;
use crate::tape::{KvInfo, PAGE};

// A tile of positions lies in one page.
const _: () = assert!(PAGE.is_multiple_of(TILE));

/// Pages of (layer, K or V, head, position) as `KvType` encodes a head: the positions of a head lie side by side, because
/// attention reads them in that order.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) info: KvInfo,
    /// The pages of each, one after the other; empty where they were given back.
    chunks: Vec<Vec<u8>>,
    /// Each conversation has the pages of its positions here, in their order.
    tables: Vec<Vec<usize>>,
}

impl Cache {
    /// Each conversation has pages of its own, as far as they go.
    pub(super) fn new(info: KvInfo) -> Self {
        let each = info.pages_each();
        let table = |entry: usize| entry * each..((entry + 1) * each).min(info.pages);
        Self {
            info,
            chunks: (0..info.chunks()).map(|chunk| zeros(info, chunk)).collect(),
            tables: (0..info.entries)
                .map(|entry| table(entry).collect())
                .collect(),
        }
    }

    /// From now on the positions of a conversation lie in these pages.
    pub(super) fn seat(&mut self, entry: usize, pages: &[usize]) {
        let table = &mut self.tables[entry];
        table.clear();
        table.extend_from_slice(pages);
    }

    /// Frees the memory of chunks. A table that leads there ends before.
    pub(super) fn give_back(&mut self, chunks: &[usize]) {
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

    /// Positions that a conversation has pages for.
    pub(super) fn capacity(&self, entry: usize) -> usize {
        (self.tables[entry].len() * PAGE).min(self.info.context)
    }

    pub(super) fn copy_page(&mut self, from: usize, to: usize) {
        let bytes = self.page(from).to_vec();
        self.page_mut(to).copy_from_slice(&bytes);
    }

    /// What a page holds of its first positions; zeros for the others.
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

    /// Where K (0) or V (1) of some positions of a head lie, which are in one page: a page, and where in it.
    fn place(
        &self,
        (entry, layer, head): (usize, usize, usize),
        side: usize,
        positions: Range<usize>,
    ) -> (usize, Range<usize>) {
        let page = self.tables[entry][positions.start / PAGE];
        let stride = self.stride(side);
        let begin = self.info.sides_of(layer)[side];
        let at = begin + (head * PAGE + positions.start % PAGE) * stride;
        (page, at..at + positions.len() * stride)
    }

    /// Stores rows of k and v, each (heads * head_dim), of a conversation from `position` on.
    pub(super) fn store(
        &mut self,
        (entry, layer): (usize, usize),
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
                    let (page, place) = self.place((entry, layer, head), side, at..at + 1);
                    element.encode(values, &mut self.page_mut(page)[place]);
                }
            }
        }
    }

    /// K and V of a tile of positions of a head, to be decoded by its type; of the last tile as many as come before `end`.
    pub(super) fn tile(&self, head: (usize, usize, usize), index: usize, end: usize) -> [&[u8]; 2] {
        let positions = index * TILE..end.min((index + 1) * TILE);
        [0, 1].map(|side| {
            let (page, place) = self.place(head, side, positions.clone());
            &self.page(page)[place]
        })
    }

    /// K and V of a layer of a conversation, each (head, position).
    pub(super) fn read(&self, entry: usize, layer: usize) -> [Vec<u8>; 2] {
        [0, 1].map(|side| {
            let mut bytes = Vec::new();
            // Piece by piece: byte by byte it took two thirds of what `check/` took for its cases.
            for (page, place) in self.places((entry, layer), side) {
                bytes.extend_from_slice(&self.page(page)[place]);
            }
            bytes
        })
    }

    /// Puts them there.
    pub(super) fn write(&mut self, entry: usize, layer: usize, sides: &[Vec<u8>; 2]) {
        for (side, bytes) in sides.iter().enumerate() {
            let mut bytes = bytes.as_slice();
            for (page, place) in self.places((entry, layer), side).collect::<Vec<_>>() {
                let (own, others) = bytes.split_at(place.len());
                self.page_mut(page)[place].copy_from_slice(own);
                bytes = others;
            }
        }
    }

    /// Where all positions of a conversation lie, head by head and page by page.
    fn places(
        &self,
        (entry, layer): (usize, usize),
        side: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let context = self.info.context;
        let heads = 0..self.info.heads;
        heads.flat_map(move |head| {
            let starts = (0..context).step_by(PAGE);
            starts.map(move |start| {
                let positions = start..(start + PAGE).min(context);
                self.place((entry, layer, head), side, positions)
            })
        })
    }
}

/// The bytes of a chunk. The system gives them when they are first written.
fn zeros(info: KvInfo, chunk: usize) -> Vec<u8> {
    vec![0; info.pages_of(chunk).len() * info.page_bytes()]
}
