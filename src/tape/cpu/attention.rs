//! Scaled dot-product attention over the cache, one query head of one row at a time.

use rayon::prelude::*;

use super::cache::Cache;
use super::matmul::dot;
use crate::tape::KvInfo;

/// Positions whose K or V are decoded at a time.
const TILE: usize = 32;

/// The query heads of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    /// `heads * head_dim`
    pub(super) columns: usize,
    /// Of the first row.
    pub(super) position: usize,
}

/// Bytes that a thread takes while it attends: a score for each position, in a vector that grows by doubling,
/// and a tile.
pub(super) fn thread_bytes(kv: KvInfo) -> usize {
    4 * (2 * kv.context + TILE * kv.head_dim)
}

/// `out = softmax(q K^T / sqrt(head_dim)) V`; q and out are (rows, columns).
pub(super) fn attend(cache: &Cache, layer: usize, heads: Heads, q: &[f32], out: &mut [f32]) {
    let head_dim = cache.info.head_dim;
    let per_row = heads.columns / head_dim;
    let group = per_row / cache.info.heads;
    let arch = pulp::Arch::new();
    out.par_chunks_exact_mut(head_dim)
        .zip(q.par_chunks_exact(head_dim))
        .enumerate()
        .for_each_init(
            || (Vec::new(), vec![0.0; TILE * head_dim]),
            |(scores, tile), (index, (out, q))| {
                let (row, head) = (index / per_row, index % per_row);
                let (k, v) = cache.head(layer, head / group, heads.position + row + 1);
                arch.dispatch(One {
                    cache,
                    q,
                    k,
                    v,
                    scores,
                    tile,
                    out,
                });
            },
        );
}

/// One query head of one row.
struct One<'a> {
    cache: &'a Cache,
    q: &'a [f32],
    /// Of the positions that it sees.
    k: &'a [u8],
    v: &'a [u8],
    scores: &'a mut Vec<f32>,
    tile: &'a mut [f32],
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for One<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            cache,
            q,
            k,
            v,
            scores,
            tile,
            out,
        } = self;
        let (head_dim, format) = (q.len(), cache.format());
        let tile_bytes = TILE * format.row_bytes(head_dim);
        #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
        let scale = 1.0 / (head_dim as f32).sqrt();
        scores.clear();
        for k in k.chunks(tile_bytes) {
            let tile = &mut tile[..k.len() / format.row_bytes(head_dim) * head_dim];
            format.dequantize(k, tile);
            scores.extend(tile.chunks_exact(head_dim).map(|k| dot(q, k) * scale));
        }
        let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for score in scores.iter_mut() {
            *score = (*score - greatest).exp();
            sum += *score;
        }
        out.fill(0.0);
        for (v, scores) in v.chunks(tile_bytes).zip(scores.chunks(TILE)) {
            let tile = &mut tile[..scores.len() * head_dim];
            format.dequantize(v, tile);
            for (v, score) in tile.chunks_exact(head_dim).zip(scores) {
                for (out, v) in out.iter_mut().zip(v) {
                    *out += score * v;
                }
            }
        }
        out.iter_mut().for_each(|out| *out /= sum);
    }
}
