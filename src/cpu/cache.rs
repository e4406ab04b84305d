//! The key-value cache in host memory: pages, and the page tables of each slot.

use std::ops::Range;

use super::softmax::TILE;
use crate::kv::PAGE;
use crate::tape::{CacheLayer, KvHeads, KvInfo};

// All positions of a tile are in one page.
const _: () = assert!(PAGE.is_multiple_of(TILE));

/// Pages of (layer, K or V, head, position). `KvType` encodes each head. The positions of a head are adjacent, because
/// attention reads them in that order.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) info: KvInfo,
    /// The pages of each chunk; empty if the chunk is released.
    chunks: Vec<Vec<u8>>,
    /// The tables of each slot, one for each group of layers, in the order of positions.
    tables: Vec<Vec<Vec<usize>>>,
    /// The place of each layer in pages, by its kind and index: attention asks for it with every tile.
    layers: [Vec<LayerPlace>; 2],
}

/// The place of a layer.
#[derive(Clone, Copy, Debug)]
struct LayerPlace {
    group: usize,
    /// The offsets of K and of V in a page.
    sides: [usize; 2],
    /// Bytes of K and of V of one position of one head.
    strides: [usize; 2],
}

/// The number of a page that no row reads.
const UNREAD: usize = usize::MAX;

impl Cache {
    /// Creates a cache in which each slot has its own pages, as far as there are enough.
    pub(super) fn new(info: KvInfo) -> Self {
        let (each, groups) = (info.blocks(), info.groups());
        let table = |number: usize| {
            let pages = number * each..((number + 1) * each).min(info.pages);
            pages.collect()
        };
        let tables = |slot: usize| (slot * groups..(slot + 1) * groups).map(table).collect();
        Self {
            info,
            chunks: (0..info.chunks()).map(|chunk| zeros(info, chunk)).collect(),
            tables: (0..info.slots).map(tables).collect(),
            layers: places(info),
        }
    }

    pub(super) fn set_pages(&mut self, slot: usize, tables: &[Vec<Option<usize>>]) {
        let table = |table: &Vec<Option<usize>>| {
            let pages = table.iter().map(|page| page.unwrap_or(UNREAD));
            pages.collect()
        };
        self.tables[slot] = tables.iter().map(table).collect();
    }

    /// Frees the memory of chunks, and cuts each table before its first page there.
    pub(super) fn release(&mut self, chunks: &[usize]) {
        let is_gone = |page: &usize| chunks.contains(&(*page / self.info.chunk));
        for tables in &mut self.tables {
            let first = |table: &Vec<usize>| table.iter().position(is_gone);
            if let Some(first) = tables.iter().filter_map(first).min() {
                tables.iter_mut().for_each(|table| table.truncate(first));
            }
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

    pub(super) fn page(&self, page: usize) -> &[u8] {
        let bytes = self.info.page_bytes();
        &self.chunks[page / self.info.chunk][page % self.info.chunk * bytes..][..bytes]
    }

    fn page_mut(&mut self, page: usize) -> &mut [u8] {
        let bytes = self.info.page_bytes();
        &mut self.chunks[page / self.info.chunk][page % self.info.chunk * bytes..][..bytes]
    }

    /// The number of positions for which a slot has pages.
    pub(super) fn capacity(&self, slot: usize) -> usize {
        let blocks = self.tables[slot].iter().map(Vec::len).min();
        (blocks.unwrap_or(0) * PAGE).min(self.info.context)
    }

    pub(super) fn copy_page(&mut self, from: usize, to: usize) {
        let bytes = self.page(from).to_vec();
        self.page_mut(to).copy_from_slice(&bytes);
    }

    /// Copies the first positions of a page of a group of layers; the others are zero.
    pub(super) fn read_page(
        &self,
        (page, group): (usize, usize),
        positions: usize,
        out: &mut [u8],
    ) {
        out.copy_from_slice(self.page(page));
        for layer in self.info.layers_of(group) {
            let bytes = self.info.kind(layer).side_bytes(self.info.types);
            for (side, begin) in self.info.sides_of(layer).into_iter().enumerate() {
                let stride = self.stride(layer, side);
                for head in out[begin..begin + bytes[side]].chunks_exact_mut(PAGE * stride) {
                    head[positions * stride..].fill(0);
                }
            }
        }
    }

    pub(super) fn write_page(&mut self, page: usize, bytes: &[u8]) {
        self.page_mut(page).copy_from_slice(bytes);
    }

    /// Bytes of K (0) or V (1) of one position of one head.
    fn stride(&self, layer: CacheLayer, side: usize) -> usize {
        self.layers[layer.kind][layer.index].strides[side]
    }

    /// The page that holds K (0) or V (1) of some positions of a head, and their bytes in it. All positions are in one
    /// page.
    fn place(
        &self,
        (slot, layer, head): (usize, CacheLayer, usize),
        side: usize,
        positions: Range<usize>,
    ) -> (usize, Range<usize>) {
        let LayerPlace {
            group,
            sides,
            strides,
        } = self.layers[layer.kind][layer.index];
        let page = self.tables[slot][group][positions.start / PAGE];
        let (begin, stride) = (sides[side], strides[side]);
        let at = begin + (head * PAGE + positions.start % PAGE) * stride;
        (page, at..at + positions.len() * stride)
    }

    /// Stores rows of k and v, each (heads * head_dim), from `position` on.
    pub(super) fn store(
        &mut self,
        (slot, layer): (usize, CacheLayer),
        position: usize,
        k: &[f32],
        v: &[f32],
    ) {
        let KvHeads {
            heads,
            head_dim,
            types,
            ..
        } = self.info.heads_of(layer);
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
    pub(super) fn tile(
        &self,
        head: (usize, CacheLayer, usize),
        index: usize,
        end: usize,
    ) -> [&[u8]; 2] {
        let positions = index * TILE..end.min((index + 1) * TILE);
        [0, 1].map(|side| {
            let (page, place) = self.place(head, side, positions.clone());
            &self.page(page)[place]
        })
    }

    /// K and V of a layer in a slot, each (head, position).
    pub(super) fn read(&self, slot: usize, layer: CacheLayer) -> [Vec<u8>; 2] {
        [0, 1].map(|side| {
            let mut bytes = Vec::new();
            for (page, place) in self.places((slot, layer), side) {
                bytes.extend_from_slice(&self.page(page)[place]);
            }
            bytes
        })
    }

    /// Writes K and V of a layer in a slot, each (head, position).
    pub(super) fn write(&mut self, slot: usize, layer: CacheLayer, sides: &[Vec<u8>; 2]) {
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
        (slot, layer): (usize, CacheLayer),
        side: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let context = self.info.context;
        let heads = 0..self.info.kind(layer).heads;
        heads.flat_map(move |head| {
            let starts = (0..context).step_by(PAGE);
            starts.map(move |start| {
                let positions = start..(start + PAGE).min(context);
                self.place((slot, layer, head), side, positions)
            })
        })
    }
}

/// The place of each layer in pages.
fn places(info: KvInfo) -> [Vec<LayerPlace>; 2] {
    let mut places = [Vec::new(), Vec::new()];
    for layer in info.layers() {
        let head_dim = info.kind(layer).head_dim;
        places[layer.kind].push(LayerPlace {
            group: info.group_of(layer),
            sides: info.sides_of(layer),
            strides: info.types.sides().map(|side| side.bytes(head_dim)),
        });
    }
    places
}

/// The bytes of a chunk. The system allocates them on first write.
fn zeros(info: KvInfo, chunk: usize) -> Vec<u8> {
    vec![0; info.pages_of(chunk).len() * info.page_bytes()]
}
