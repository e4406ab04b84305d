//! Attention over one part of the positions, for query heads that share a head of the cache: one tile after the other,
//! with a running softmax. How parts become a whole is for `attention` to say.

use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::cache::Cache;
use super::dots::Dots;
use super::softmax::{Softmax, TILE, Weighted};
use crate::tape::{DType, KvInfo, KvType};

/// Positions of a part.
pub(super) const PART: usize = 4 * TILE;

/// Query heads of some rows, and what they attend to.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    pub(super) cache: &'a Cache,
    /// Layer and head of the cache.
    pub(super) place: (usize, usize),
    /// Of the first row.
    pub(super) position: usize,
    /// What is read of quants is rounded to.
    pub(super) activation: DType,
    /// (rows, group, head_dim)
    pub(super) q: &'a [f32],
    /// Query heads of a row.
    pub(super) group: usize,
}

impl Queries<'_> {
    /// Positions that the last row sees.
    pub(super) fn positions(&self) -> usize {
        self.position + self.q.len() / self.group / self.cache.info.head_dim
    }

    /// How many positions one of them sees from `first` on: a row sees itself and what came before it.
    pub(super) fn seen(&self, query: usize, first: usize) -> usize {
        (self.position + query / self.group + 1).saturating_sub(first)
    }
}

/// What a thread computes in.
#[derive(Debug, Default)]
pub(super) struct Tile {
    /// (TILE, head_dim)
    values: Vec<f32>,
    /// (queries, TILE): scores, then their weights.
    scores: Vec<f32>,
}

impl Tile {
    pub(super) fn bytes(queries: usize, head_dim: usize) -> usize {
        size_of::<f32>() * TILE * (head_dim + queries)
    }

    fn prepare(&mut self, queries: usize, head_dim: usize) {
        self.values.resize(TILE * head_dim, 0.0);
        self.scores.resize(queries * TILE, 0.0);
    }
}

/// Sums one part up.
pub(super) struct Part<'a> {
    pub(super) queries: Queries<'a>,
    /// Which one.
    pub(super) index: usize,
    pub(super) tile: &'a mut Tile,
    /// (queries)
    pub(super) softmax: &'a mut [Softmax],
    /// (queries, head_dim): sums of V, not yet divided.
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for Part<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            queries,
            index,
            tile,
            softmax,
            sums,
        } = self;
        let Queries {
            cache, activation, ..
        } = queries;
        let head_dim = cache.info.head_dim;
        let (layer, head) = queries.place;
        #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
        let scale = 1.0 / (head_dim as f32).sqrt();
        let (begin, end) = (index * PART, queries.positions().min((index + 1) * PART));

        softmax.fill(Softmax::default());
        sums.fill(0.0);
        tile.prepare(softmax.len(), head_dim);
        let Tile { values, scores } = tile;
        for first in (begin..end).step_by(TILE) {
            let (k, v) = cache.head(layer, head, first..end.min(first + TILE));
            decode(simd, cache.info, activation, k, values);
            Dots {
                left: queries.q,
                right: values,
                columns: head_dim,
                out: scores,
            }
            .with_simd(simd);
            let scores = scores.as_chunks_mut().0;
            let each = scores.iter_mut().zip(sums.chunks_exact_mut(head_dim));
            for (query, ((scores, sums), softmax)) in each.zip(&mut *softmax).enumerate() {
                let seen = queries.seen(query, first).min(TILE);
                softmax.add(scores, seen, scale, sums);
            }
            decode(simd, cache.info, activation, v, values);
            Weighted {
                weights: scores,
                values,
                head_dim,
                sums,
            }
            .with_simd(simd);
        }
    }
}

/// Positions of the cache as numbers; where a tile has fewer, the others are zeros.
#[inline(always)]
fn decode<S: Simd>(simd: S, kv: KvInfo, activation: DType, bytes: &[u8], tile: &mut [f32]) {
    let KvInfo {
        head_dim, element, ..
    } = kv;
    let (held, others) = tile.split_at_mut(bytes.len() / element.bytes(head_dim) * head_dim);
    others.fill(0.0);
    #[cfg(target_arch = "x86_64")]
    if element == KvType::F16
        && let Some(simd) = avx512::of(simd)
    {
        return avx512::dequantize_halves(simd, bytes, held);
    }
    let _ = simd;
    element.decode(head_dim, bytes, held);
    if element.number().is_none() {
        activation.round(held);
    }
}
