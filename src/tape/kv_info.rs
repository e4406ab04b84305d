//! The geometry of the key-value cache: its layers, their heads, pages, and the bytes that they take.
//!
//! Layers that see all positions need all pages of a conversation, and layers with a window only the last ones. A page
//! therefore holds 64 positions of a group of layers of one kind. All groups have pages of the same size, so that any
//! group can use any page.

use std::num::NonZeroUsize;

use crate::kv::{KvType, KvTypes, Layout, PAGE};

/// The key-value cache that a tape reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvInfo {
    /// The layers that see all positions, and those that see a window. One of them may have no layer.
    pub kinds: [KvKind; 2],
    /// The most positions of one conversation.
    pub context: usize,
    /// Conversations that an executor can hold at the same time.
    pub slots: usize,
    /// Pages of `PAGE` positions, which all slots share.
    pub pages: usize,
    /// The number of pages of a chunk, whose memory is allocated and released together.
    pub chunk: usize,
    pub types: KvTypes,
    /// The most positions that one run writes.
    pub run: usize,
    /// Bytes of a checkpoint of the recurrent state; 0 if the model has none.
    pub state_bytes: usize,
}

/// Layers of the cache with the same heads and window. A layer of the model that reads the K and V of another one has
/// no layer of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvKind {
    pub layers: usize,
    pub heads: usize,
    pub head_dim: usize,
    /// The number of positions that a row sees, including its own; `None` means all.
    pub window: Option<NonZeroUsize>,
}

/// The cache of one layer, as attention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHeads {
    pub heads: usize,
    pub head_dim: usize,
    /// The most positions of one conversation.
    pub context: usize,
    pub types: KvTypes,
}

/// A layer of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheLayer {
    /// The index in `KvInfo::kinds`.
    pub kind: usize,
    /// The number of the layer among those of its kind.
    pub index: usize,
}

impl KvKind {
    /// The elements of K, and of V, of one position in one layer.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Bytes of K and V of one position in one layer.
    #[must_use]
    pub fn position_bytes(&self, types: KvTypes) -> usize {
        self.heads * types.bytes(self.head_dim)
    }

    /// Bytes of K, then of V, of one layer in a page.
    #[must_use]
    pub fn side_bytes(&self, types: KvTypes) -> [usize; 2] {
        let bytes = |element: KvType| self.heads * PAGE * element.bytes(self.head_dim);
        types.sides().map(bytes)
    }
}

impl KvInfo {
    /// No cache, as for a vision tower.
    #[must_use]
    pub fn none() -> Self {
        Self {
            kinds: [KvKind::default(); 2],
            context: 0,
            slots: 0,
            pages: 0,
            chunk: 1,
            types: KvType::F16.into(),
            run: 0,
            state_bytes: 0,
        }
    }

    /// The kinds of a cache whose layers are all alike and see all positions.
    #[must_use]
    pub fn alike(layers: usize, heads: usize, head_dim: usize) -> [KvKind; 2] {
        let all = KvKind {
            layers,
            heads,
            head_dim,
            window: None,
        };
        [all, KvKind::default()]
    }

    /// The kind of a layer.
    #[must_use]
    pub fn kind(&self, layer: CacheLayer) -> KvKind {
        self.kinds[layer.kind]
    }

    /// The heads of a layer.
    #[must_use]
    pub fn heads_of(&self, layer: CacheLayer) -> KvHeads {
        self.heads_of_kind(layer.kind)
    }

    /// The heads of the layers of a kind.
    #[must_use]
    pub fn heads_of_kind(&self, kind: usize) -> KvHeads {
        let KvKind {
            heads, head_dim, ..
        } = self.kinds[kind];
        KvHeads {
            heads,
            head_dim,
            context: self.context,
            types: self.types,
        }
    }

    /// The kinds that have layers, by their index.
    pub fn kind_indices(&self) -> impl Iterator<Item = usize> + use<> {
        let kinds = self.kinds;
        (0..kinds.len()).filter(move |kind| kinds[*kind].layers > 0)
    }

    /// The kinds that have layers.
    pub fn used_kinds(&self) -> impl Iterator<Item = KvKind> {
        self.kinds.into_iter().filter(|kind| kind.layers > 0)
    }

    /// All layers of the cache.
    pub fn layers(&self) -> impl Iterator<Item = CacheLayer> + use<> {
        let layers = |(kind, of): (usize, KvKind)| {
            (0..of.layers).map(move |index| CacheLayer { kind, index })
        };
        self.kinds.into_iter().enumerate().flat_map(layers)
    }

    /// The layers of each kind that a page holds: as many as fit into a page with all layers of the smaller kind.
    fn layers_of_page(&self) -> [usize; 2] {
        let smaller = self
            .used_kinds()
            .map(|kind| kind.layers * kind.width())
            .min()
            .unwrap_or(0);
        self.kinds
            .map(|kind| (smaller / kind.width().max(1)).clamp(1, kind.layers.max(1)))
    }

    /// The groups of each kind, of which each has a page for every 64 positions.
    fn groups_of_kinds(&self) -> [usize; 2] {
        let each = self.layers_of_page();
        [0, 1].map(|kind| self.kinds[kind].layers.div_ceil(each[kind]))
    }

    /// The number of groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups_of_kinds().into_iter().sum()
    }

    /// The group whose pages hold a layer.
    #[must_use]
    pub fn group_of(&self, CacheLayer { kind, index }: CacheLayer) -> usize {
        let before = if kind == 0 {
            0
        } else {
            self.groups_of_kinds()[0]
        };
        before + index / self.layers_of_page()[kind]
    }

    /// The use of pages by a conversation.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let groups = self.groups_of_kinds();
        let windows = self
            .kinds
            .into_iter()
            .zip(groups)
            .flat_map(|(kind, groups)| {
                let window = kind.window.map(NonZeroUsize::get);
                std::iter::repeat_n(window, groups)
            });
        let pages = match self.page_bytes() {
            0 => 0,
            bytes => self.state_bytes.div_ceil(bytes),
        };
        Layout::new(windows.collect(), self.run).with_state(pages)
    }

    /// Bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.page_bytes() * self.pages
    }

    /// Bytes of one page: K and V of the layers of a group.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        let layers = self.layers_of_page();
        let kinds = self.kinds.iter().zip(layers);
        let bytes = kinds
            .filter(|(kind, _)| kind.layers > 0)
            .map(|(kind, layers)| layers * kind.position_bytes(self.types) * PAGE);
        bytes.max().unwrap_or(0)
    }

    /// The offsets of K and of V of a layer in a page.
    #[must_use]
    pub fn sides_of(&self, layer: CacheLayer) -> [usize; 2] {
        let [k, v] = self.kind(layer).side_bytes(self.types);
        let begin = layer.index % self.layers_of_page()[layer.kind] * (k + v);
        [begin, begin + k]
    }

    /// The layers that a group's pages hold, in order.
    pub fn layers_of(&self, group: usize) -> impl Iterator<Item = CacheLayer> + use<> {
        let info = *self;
        self.layers()
            .filter(move |layer| info.group_of(*layer) == group)
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

    /// The elements of a page table: one for every 64 positions of the longest conversation.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.context.div_ceil(PAGE)
    }

    /// Pages of the longest conversation.
    #[must_use]
    pub fn pages_each(&self) -> usize {
        self.layout().pages(self.context)
    }

    /// The most positions of a conversation that has all pages.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.context.min(self.layout().positions(self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kinds: [KvKind; 2]) -> KvInfo {
        KvInfo {
            kinds,
            context: 32_768,
            slots: 1,
            pages: 100,
            chunk: 1,
            types: KvType::F16.into(),
            run: 512,
            state_bytes: 0,
        }
    }

    fn kind(layers: usize, heads: usize, head_dim: usize, window: usize) -> KvKind {
        KvKind {
            layers,
            heads,
            head_dim,
            window: NonZeroUsize::new(window),
        }
    }

    /// Gemma 3 4B and Gemma 4 E2B: every layer has a place of its own in the pages of its group.
    #[test]
    fn groups_have_pages_of_one_size_and_layers_do_not_overlap() {
        let gemma3 = [kind(5, 4, 256, 0), kind(29, 4, 256, 1024)];
        let gemma4 = [kind(3, 1, 512, 0), kind(12, 1, 256, 512)];
        for (kinds, groups, layers) in [(gemma3, 7, 5), (gemma4, 3, 3)] {
            let info = info(kinds);
            assert_eq!(info.groups(), groups);
            let first = kinds[0].position_bytes(info.types);
            assert_eq!(info.page_bytes(), layers * first * PAGE);
            for group in 0..groups {
                let mut end = 0;
                for layer in info.layers_of(group) {
                    let [k, v] = info.sides_of(layer);
                    assert_eq!(k, end);
                    end = v + info.kind(layer).side_bytes(info.types)[1];
                }
                assert!(end > 0 && end <= info.page_bytes());
            }
        }
        assert_eq!(info(KvInfo::alike(36, 8, 128)).groups(), 1);
    }
}
