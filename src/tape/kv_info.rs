//! The geometry of the key-value cache: heads, layers, pages, and the bytes that they take.

use crate::kv::{KvType, KvTypes, PAGE};

/// The key-value cache that a tape reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvInfo {
    pub layers: usize,
    pub heads: usize,
    pub head_dim: usize,
    /// The most positions of one conversation.
    pub context: usize,
    /// Conversations that an executor can hold at the same time.
    pub slots: usize,
    /// Pages of `PAGE` positions, which all slots share.
    pub pages: usize,
    /// The number of pages of a chunk, whose memory is allocated and released together.
    pub chunk: usize,
    pub types: KvTypes,
}

impl KvInfo {
    /// Bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.page_bytes() * self.pages
    }

    /// Bytes of one page: K and V of all layers.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.bytes_per_position() * PAGE
    }

    /// Bytes of K, then of V, of one layer in a page.
    #[must_use]
    pub fn side_bytes(&self) -> [usize; 2] {
        let bytes = |element: KvType| self.heads * PAGE * element.bytes(self.head_dim);
        self.types.sides().map(bytes)
    }

    /// The offsets of K and of V of a layer in a page.
    #[must_use]
    pub fn sides_of(&self, layer: usize) -> [usize; 2] {
        let [k, v] = self.side_bytes();
        let begin = layer * (k + v);
        [begin, begin + k]
    }

    /// Chunks of pages; the last one may have fewer than the others.
    #[must_use]
    pub const fn chunks(&self) -> usize {
        self.pages.div_ceil(self.chunk)
    }

    /// The pages of a chunk.
    #[must_use]
    pub fn pages_of(&self, chunk: usize) -> std::ops::Range<usize> {
        let first = chunk * self.chunk;
        first..(first + self.chunk).min(self.pages)
    }

    /// Pages of the longest conversation.
    #[must_use]
    pub const fn pages_each(&self) -> usize {
        self.context.div_ceil(PAGE)
    }

    /// Bytes of one position of all layers, K and V.
    #[must_use]
    pub fn bytes_per_position(&self) -> usize {
        self.layers * self.heads * self.types.bytes(self.head_dim)
    }
}
