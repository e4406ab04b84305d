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
    bytes: Vec<u8>,
    /// Of each conversation, in the order of its positions.
    tables: Vec<Vec<usize>>,
}

impl Cache {
    /// Each conversation has pages of its own, as far as they go.
    pub(super) fn new(info: KvInfo) -> Self {
        let each = info.pages_each();
        let table = |entry: usize| entry * each..((entry + 1) * each).min(info.pages);
        Self {
            info,
            bytes: vec![0; info.bytes()],
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

    /// Positions that a conversation has pages for.
    pub(super) fn capacity(&self, entry: usize) -> usize {
        (self.tables[entry].len() * PAGE).min(self.info.context)
    }

    pub(super) fn copy_page(&mut self, from: usize, to: usize) {
        let bytes = self.info.page_bytes();
        let from = from * bytes;
        self.bytes.copy_within(from..from + bytes, to * bytes);
    }

    /// What a page holds of its first positions; zeros for the others.
    pub(super) fn read_page(&self, page: usize, positions: usize, out: &mut [u8]) {
        let bytes = self.info.page_bytes();
        out.copy_from_slice(&self.bytes[page * bytes..][..bytes]);
        for head in out.chunks_exact_mut(PAGE * self.stride()) {
            head[positions * self.stride()..].fill(0);
        }
    }

    pub(super) fn write_page(&mut self, page: usize, bytes: &[u8]) {
        let length = self.info.page_bytes();
        self.bytes[page * length..][..length].copy_from_slice(bytes);
    }

    /// Bytes of one position of one head.
    fn stride(&self) -> usize {
        self.info.element.bytes(self.info.head_dim)
    }

    /// Where K (0) or V (1) of some positions of a head lie, which are in one page.
    fn place(
        &self,
        (entry, layer, head): (usize, usize, usize),
        side: usize,
        positions: Range<usize>,
    ) -> Range<usize> {
        let page = self.tables[entry][positions.start / PAGE];
        let head = ((page * self.info.layers + layer) * 2 + side) * self.info.heads + head;
        let at = (head * PAGE + positions.start % PAGE) * self.stride();
        at..at + positions.len() * self.stride()
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
            element,
            ..
        } = self.info;
        for (side, rows) in [k, v].into_iter().enumerate() {
            for (at, values) in (position..).zip(rows.chunks_exact(heads * head_dim)) {
                for (head, values) in values.chunks_exact(head_dim).enumerate() {
                    let place = self.place((entry, layer, head), side, at..at + 1);
                    element.encode(values, &mut self.bytes[place]);
                }
            }
        }
    }

    /// K and V of a tile of positions of a head, to be decoded by its type; of the last tile as many as come before `end`.
    pub(super) fn tile(&self, head: (usize, usize, usize), index: usize, end: usize) -> [&[u8]; 2] {
        let positions = index * TILE..end.min((index + 1) * TILE);
        [0, 1].map(|side| &self.bytes[self.place(head, side, positions.clone())])
    }

    /// K and V of a layer of a conversation, each (head, position).
    pub(super) fn read(&self, entry: usize, layer: usize) -> [Vec<u8>; 2] {
        [0, 1].map(|side| {
            let places = self.places((entry, layer), side);
            places
                .flat_map(|place| &self.bytes[place])
                .copied()
                .collect()
        })
    }

    /// Puts them there.
    pub(super) fn write(&mut self, entry: usize, layer: usize, sides: &[Vec<u8>; 2]) {
        for (side, bytes) in sides.iter().enumerate() {
            let mut bytes = bytes.as_slice();
            for place in self.places((entry, layer), side).collect::<Vec<_>>() {
                let (own, others) = bytes.split_at(place.len());
                self.bytes[place].copy_from_slice(own);
                bytes = others;
            }
        }
    }

    /// Where all positions of a conversation lie, head by head and page by page.
    fn places(
        &self,
        (entry, layer): (usize, usize),
        side: usize,
    ) -> impl Iterator<Item = Range<usize>> + '_ {
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
