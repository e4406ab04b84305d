//! The key-value cache in host memory.

use crate::tape::KvInfo;

/// K and V, each (region and layer, head, position) as `KvType` encodes a head: the positions of a head lie side by side, because
/// attention reads them in that order.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) info: KvInfo,
    k: Vec<u8>,
    v: Vec<u8>,
}

impl Cache {
    pub(super) fn new(info: KvInfo) -> Self {
        let bytes = info.bytes() / 2;
        Self {
            info,
            k: vec![0; bytes],
            v: vec![0; bytes],
        }
    }

    /// Bytes of one position of one head.
    fn stride(&self) -> usize {
        self.info.element.bytes(self.info.head_dim)
    }

    fn start(&self, layer: usize, head: usize) -> usize {
        (layer * self.info.heads + head) * self.info.context * self.stride()
    }

    /// Stores rows of k and v, each (heads * head_dim), from `position` on.
    pub(super) fn store(&mut self, layer: usize, position: usize, k: &[f32], v: &[f32]) {
        let (
            KvInfo {
                heads,
                head_dim,
                element,
                ..
            },
            stride,
        ) = (self.info, self.stride());
        for (to, from) in [(0, k), (1, v)] {
            for (row, values) in from.chunks_exact(heads * head_dim).enumerate() {
                for (head, values) in values.chunks_exact(head_dim).enumerate() {
                    let at = self.start(layer, head) + (position + row) * stride;
                    let cache = if to == 0 { &mut self.k } else { &mut self.v };
                    element.encode(values, &mut cache[at..][..stride]);
                }
            }
        }
    }

    /// Copies the first positions of a region to another.
    pub(super) fn copy(&mut self, from: usize, to: usize, positions: usize) {
        let (layers, heads) = (self.info.layers, self.info.heads);
        let bytes = positions * self.stride();
        for layer in 0..layers {
            for head in 0..heads {
                let [from, to] = [from, to].map(|region| self.start(region * layers + layer, head));
                for cache in [&mut self.k, &mut self.v] {
                    cache.copy_within(from..from + bytes, to);
                }
            }
        }
    }

    /// K and V of the first `positions` positions of a head, to be decoded by its type.
    pub(super) fn head(&self, layer: usize, head: usize, positions: usize) -> (&[u8], &[u8]) {
        let (at, len) = (self.start(layer, head), positions * self.stride());
        (&self.k[at..][..len], &self.v[at..][..len])
    }

    /// K and V of a layer, (head, position).
    pub(super) fn layer(&mut self, layer: usize) -> [&mut [u8]; 2] {
        let (start, end) = (self.start(layer, 0), self.start(layer + 1, 0));
        [&mut self.k[start..end], &mut self.v[start..end]]
    }
}
