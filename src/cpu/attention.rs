//! Scaled dot-product attention over the cache: for all query heads that share a head of the cache, of several rows, one
//! tile of positions after the other, with a running softmax (FlashAttention: Dao et al. 2022).
//!
//! Tiles begin at multiples of their length, whatever the chunk, and a query never meets a position that it does not see:
//! so the bits of a row do not depend on the rows beside it.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::cache::Cache;
use super::dots::Dots;
use super::softmax::{Softmax, TILE, Weighted};
use crate::tape::{Attention, DType, KvInfo};

/// The most rows that share a decoded tile.
const ROWS: usize = 16;

/// The query heads of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads<'a> {
    /// `heads * head_dim`
    pub(super) columns: usize,
    /// Of the first row.
    pub(super) position: usize,
    /// What is read of a cache of quants is rounded to.
    pub(super) activation: DType,
    pub(super) attention: Attention,
    /// (query heads)
    pub(super) sinks: Option<&'a [f32]>,
}

/// Bytes that a thread takes while it attends, with `columns` in a row of q.
pub(super) fn thread_bytes(kv: KvInfo, columns: usize) -> usize {
    Scratch::bytes(ROWS * columns / kv.heads / kv.head_dim, kv.head_dim)
}

/// `out = softmax(scale q K^T) V`; q and out are (rows, columns).
pub(super) fn attend(cache: &Cache, layer: usize, heads: Heads<'_>, q: &[f32], out: &mut [f32]) {
    let KvInfo {
        head_dim,
        heads: shared,
        ..
    } = cache.info;
    let Heads {
        columns, position, ..
    } = heads;
    // Of the query heads that share a head of the cache.
    let (rows, width) = (q.len() / columns, columns / shared);
    let arch = pulp::Arch::new();
    let scratch = || Scratch::new(ROWS * width / head_dim, head_dim);
    if rows == 1 {
        q.par_chunks_exact(width)
            .zip(out.par_chunks_exact_mut(width))
            .enumerate()
            .for_each_init(scratch, |scratch, (head, (q, out))| {
                arch.dispatch(Queries {
                    cache,
                    place: (layer, head),
                    heads,
                    position,
                    q,
                    out,
                    columns: width,
                    shared: 0..width,
                    scratch,
                });
            });
        return;
    }
    // Enough blocks for every thread.
    let block = rows.div_ceil(2 * rayon::current_num_threads()).min(ROWS);
    q.par_chunks(block * columns)
        .zip(out.par_chunks_mut(block * columns))
        .enumerate()
        .for_each_init(scratch, |scratch, (index, (q, out))| {
            for head in 0..shared {
                arch.dispatch(Queries {
                    cache,
                    place: (layer, head),
                    heads,
                    position: position + index * block,
                    q,
                    out,
                    columns,
                    shared: head * width..(head + 1) * width,
                    scratch,
                });
            }
        });
}

/// What a thread computes in.
struct Scratch {
    /// (queries, head_dim)
    q: Vec<f32>,
    /// (TILE, head_dim)
    tile: Vec<f32>,
    /// (queries, TILE): scores, then their weights.
    scores: Vec<f32>,
    /// (queries, head_dim): sums of V, not yet divided.
    sums: Vec<f32>,
    softmax: Vec<Softmax>,
}

impl Scratch {
    fn new(queries: usize, head_dim: usize) -> Self {
        Self {
            q: vec![0.0; queries * head_dim],
            tile: vec![0.0; TILE * head_dim],
            scores: vec![0.0; queries * TILE],
            sums: vec![0.0; queries * head_dim],
            softmax: vec![Softmax::default(); queries],
        }
    }

    fn bytes(queries: usize, head_dim: usize) -> usize {
        4 * (2 * queries * head_dim + TILE * (head_dim + queries)) + queries * size_of::<Softmax>()
    }

    fn begin(&mut self, queries: usize) {
        self.sums.fill(0.0);
        self.softmax[..queries].fill(Softmax::default());
    }
}

/// The query heads of some rows that share a head of the cache.
struct Queries<'a> {
    cache: &'a Cache,
    /// Layer and head of the cache.
    place: (usize, usize),
    heads: Heads<'a>,
    /// Of the first row.
    position: usize,
    /// Rows of `columns`, of which the `shared` ones are theirs.
    q: &'a [f32],
    out: &'a mut [f32],
    columns: usize,
    shared: Range<usize>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Queries<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            cache,
            place: (layer, head),
            heads:
                Heads {
                    activation,
                    attention,
                    sinks,
                    ..
                },
            position,
            q,
            out,
            columns,
            shared,
            scratch,
        } = self;
        let KvInfo {
            head_dim, element, ..
        } = cache.info;
        let (rows, group) = (q.len() / columns, shared.len() / head_dim);
        let queries = rows * group;
        let stride = element.bytes(head_dim);
        let (k, v) = cache.head(layer, head, position + rows);
        let sinks = sinks.map(|sinks| &sinks[head * group..(head + 1) * group]);

        scratch.begin(queries);
        let gathered = scratch.q.chunks_exact_mut(shared.len());
        for (to, q) in gathered.zip(q.chunks_exact(columns)) {
            to.copy_from_slice(&q[shared.clone()]);
        }
        let tiles = k.chunks(TILE * stride).zip(v.chunks(TILE * stride));
        // No row sees what is before those of the first.
        let first = attention.seen_from(position) / TILE;
        for (index, (k, v)) in tiles.enumerate().skip(first) {
            decode(cache.info, activation, k, &mut scratch.tile);
            Dots {
                left: &scratch.q[..queries * head_dim],
                right: &scratch.tile,
                columns: head_dim,
                out: &mut scratch.scores[..queries * TILE],
            }
            .with_simd(simd);
            let scores = scratch.scores.as_chunks_mut().0.iter_mut();
            let sums = scratch.sums.chunks_exact_mut(head_dim);
            let softmax = scratch.softmax[..queries].iter_mut();
            for (query, ((scores, sums), softmax)) in scores.zip(sums).zip(softmax).enumerate() {
                // A row sees itself and what came before it.
                let position = position + query / group;
                let within = |at: usize| at.saturating_sub(index * TILE).min(TILE);
                let seen = within(attention.seen_from(position))..within(position + 1);
                softmax.add(scores, seen, &attention, sums);
            }
            decode(cache.info, activation, v, &mut scratch.tile);
            Weighted {
                weights: scratch.scores[..queries * TILE].as_chunks().0,
                values: &scratch.tile,
                head_dim,
                sums: &mut scratch.sums[..queries * head_dim],
            }
            .with_simd(simd);
        }
        let sums = scratch.sums.chunks_exact(head_dim);
        let mut attended = sums.zip(&scratch.softmax).enumerate();
        for row in out.chunks_exact_mut(columns) {
            for out in row[shared.clone()].chunks_exact_mut(head_dim) {
                let Some((query, (sums, softmax))) = attended.next() else {
                    return;
                };
                let all = softmax.sum_with(sinks.map(|sinks| sinks[query % group]));
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = sum / all;
                }
            }
        }
    }
}

/// Positions of the cache as numbers; where a tile has fewer, the others are zeros.
#[inline(always)]
fn decode(kv: KvInfo, activation: DType, bytes: &[u8], tile: &mut [f32]) {
    let KvInfo {
        head_dim, element, ..
    } = kv;
    let (held, others) = tile.split_at_mut(bytes.len() / element.bytes(head_dim) * head_dim);
    element.decode(head_dim, bytes, held);
    if element.number().is_none() {
        activation.round(held);
    }
    others.fill(0.0);
}
