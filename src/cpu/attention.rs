//! Scaled dot-product attention over the cache, with a running softmax over tiles of positions (FlashAttention: Dao et
//! al. 2022).
//!
//! All query heads that share a head of the cache, of several rows, are computed together. Tiles begin at multiples of
//! their length, and a query never meets a position that it does not see. The bits of a row therefore do not depend on
//! the chunk or on other rows.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{NullaryFnOnce, Simd, WithSimd};

use super::cache::Cache;
use super::dots::Dots;
use super::prefetch::prefetch;
use super::softmax::{Softmax, TILE, Weighted};
use super::threads::each;
use crate::kv::KvType;
use crate::quant::DType;
use crate::tape::{Attention, CacheLayer, KvHeads};

/// The most rows that share a decoded tile.
const ROWS: usize = 16;
/// Positions that a thread computes at a time in a step.
const SPLIT: usize = 4 * TILE;

/// The query heads of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads<'a> {
    /// `heads * head_dim`
    pub(super) columns: usize,
    /// The position of the first row.
    pub(super) position: usize,
    /// The images whose rows see each other, as rows of the run; empty in a step.
    pub(super) images: &'a [Range<usize>],
    /// The type that decoded values of a quantized cache are rounded to.
    pub(super) activation: DType,
    pub(super) attention: Attention,
    /// (query heads)
    pub(super) sinks: Option<&'a [f32]>,
}

impl Heads<'_> {
    /// The end of the positions that the row at a position sees: its own, or those of its image.
    #[inline(always)]
    fn seen_until(&self, position: usize) -> usize {
        let row = position - self.position;
        // Most runs have no images, and most others have one.
        let mut images = self.images.iter();
        let image = images.find(|image| image.contains(&row));
        image.map_or(position, |image| self.position + image.end - 1) + 1
    }
}

/// Bytes that a thread needs for attention, with `columns` in a row of q.
pub(super) fn thread_bytes(kv: KvHeads, columns: usize) -> usize {
    Scratch::bytes(ROWS * columns / kv.heads / kv.head_dim, kv.head_dim)
}

/// The length of a step's partial results, with `columns` in a row of q: a maximum, a sum and an output for each query
/// head and split.
pub(super) fn partials(kv: KvHeads, columns: usize) -> usize {
    kv.context.div_ceil(SPLIT) * (columns / kv.head_dim) * (kv.head_dim + 2)
}

/// Computes `out = softmax(scale q K^T) V` for a prompt's rows in a slot and layer; q and out are (rows, columns).
pub(super) fn attend(
    cache: &Cache,
    (slot, layer): (usize, CacheLayer),
    heads: Heads<'_>,
    q: &[f32],
    out: &mut [f32],
) {
    let KvHeads {
        head_dim,
        heads: shared,
        ..
    } = cache.info.heads_of(layer);
    let Heads {
        columns,
        position,
        sinks,
        ..
    } = heads;
    // The rows, and the columns of the query heads that share a head of the cache.
    let (rows, width) = (q.len() / columns, columns / shared);
    let arch = pulp::Arch::new();
    // The number of blocks is large enough for all threads.
    let block = rows.div_ceil(2 * rayon::current_num_threads()).min(ROWS);
    each(
        q.chunks(block * columns)
            .zip(out.chunks_mut(block * columns))
            .enumerate(),
        |(index, (q, out)): (usize, (&[f32], &mut [f32]))| {
            let mut scratch = Scratch::new(ROWS * width / head_dim, head_dim);
            let position = position + index * block;
            // No row of the block sees more than the last one.
            let last = position + q.len() / columns - 1;
            let tiles = heads.seen_until(last).div_ceil(TILE);
            for head in 0..shared {
                arch.dispatch(Queries {
                    cache,
                    place: (slot, layer, head),
                    heads,
                    position,
                    tiles: 0..tiles,
                    q,
                    shared: head * width..(head + 1) * width,
                    many: true,
                    scratch: &mut scratch,
                });
                let mut sums = scratch.sums.chunks_exact(head_dim).zip(&scratch.softmax);
                for row in out.chunks_exact_mut(columns) {
                    let outs = row[head * width..][..width].chunks_exact_mut(head_dim);
                    for ((query, out), (sums, softmax)) in outs.enumerate().zip(&mut sums) {
                        let sink = sinks.map(|sinks| sinks[head * width / head_dim + query]);
                        softmax.share(sink, sums, out);
                    }
                }
            }
        },
    );
}

/// Computes attention for one row of a step.
///
/// Positions are divided into splits, so that few heads keep all threads busy (Flash-Decoding: Dao et al. 2023). Splits
/// are merged in order; `partials` has room for them.
pub(super) fn attend_step(
    cache: &Cache,
    (slot, layer): (usize, CacheLayer),
    heads: Heads<'_>,
    q: &[f32],
    partials: &mut [f32],
    out: &mut [f32],
) {
    let KvHeads {
        head_dim,
        heads: shared,
        ..
    } = cache.info.heads_of(layer);
    let (width, position) = (q.len() / shared, heads.position);
    let group = width / head_dim;
    let first = heads.attention.seen_from(position) / SPLIT;
    let splits = position / SPLIT + 1 - first;
    let part = group * (head_dim + 2);
    let partials = &mut partials[..shared * splits * part];
    let arch = pulp::Arch::new();
    each(
        partials.chunks_exact_mut(part).enumerate(),
        |(task, part): (usize, &mut [f32])| {
            let (head, split) = (task / splits, first + task % splits);
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.reserve(group, head_dim);
                arch.dispatch(Queries {
                    cache,
                    place: (slot, layer, head),
                    heads,
                    position,
                    tiles: split * (SPLIT / TILE)..(split + 1) * (SPLIT / TILE),
                    q,
                    shared: head * width..(head + 1) * width,
                    many: false,
                    scratch,
                });
                let sums = scratch.sums.chunks_exact(head_dim).zip(&scratch.softmax);
                for (part, (sums, softmax)) in part.chunks_exact_mut(head_dim + 2).zip(sums) {
                    part[..head_dim].copy_from_slice(sums);
                    part[head_dim..].copy_from_slice(&softmax.parts());
                }
            });
        },
    );
    arch.dispatch(Merge {
        head_dim,
        group,
        splits,
        sinks: heads.sinks,
        partials,
        out,
    });
}

/// Merges the results of the splits of all heads into a row of output.
struct Merge<'a> {
    head_dim: usize,
    /// Query heads that share a head of the cache.
    group: usize,
    splits: usize,
    sinks: Option<&'a [f32]>,
    /// (heads of the cache, splits, group, head_dim + 2)
    partials: &'a mut [f32],
    out: &'a mut [f32],
}

impl NullaryFnOnce for Merge<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            head_dim,
            group,
            splits,
            sinks,
            partials,
            out,
        } = self;
        let part = group * (head_dim + 2);
        let of_heads = partials.chunks_exact_mut(splits * part);
        let outs = out.chunks_exact_mut(group * head_dim);
        for (head, (parts, out)) in of_heads.zip(outs).enumerate() {
            for (query, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let (merged, others) = parts[query * (head_dim + 2)..].split_at_mut(head_dim + 2);
                let (sums, softmax) = merged.split_at_mut(head_dim);
                let mut softmax = Softmax::of([softmax[0], softmax[1]]);
                for split in 1..splits {
                    let other = &others[split * part - (head_dim + 2)..][..head_dim + 2];
                    softmax.merge(sums, other);
                }
                let sink = sinks.map(|sinks| sinks[head * group + query]);
                softmax.share(sink, sums, out);
            }
        }
    }
}

thread_local! {
    /// Scratch memory of steps. Allocating it for each step would take as long as a short conversation.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new(0, 0));
}

/// Scratch memory of a thread.
struct Scratch {
    /// (queries, head_dim)
    q: Vec<f32>,
    /// (TILE, head_dim)
    tile: Vec<f32>,
    /// (head_dim, TILE), in a prompt
    turned: Vec<f32>,
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
            turned: vec![0.0; TILE * head_dim],
            scores: vec![0.0; queries * TILE],
            sums: vec![0.0; queries * head_dim],
            softmax: vec![Softmax::default(); queries],
        }
    }

    /// Allocates memory for a number of queries.
    fn reserve(&mut self, queries: usize, head_dim: usize) {
        if self.softmax.len() < queries || self.q.len() < queries * head_dim {
            *self = Self::new(queries, head_dim);
        }
    }

    fn bytes(queries: usize, head_dim: usize) -> usize {
        4 * (2 * queries * head_dim + TILE * (2 * head_dim + queries))
            + queries * size_of::<Softmax>()
    }

    fn begin(&mut self, queries: usize, head_dim: usize) {
        self.sums[..queries * head_dim].fill(0.0);
        self.softmax[..queries].fill(Softmax::default());
    }
}

/// The query heads of some rows that share a head of the cache, and the positions that they meet.
struct Queries<'a> {
    cache: &'a Cache,
    /// Slot, layer and head of the cache.
    place: (usize, CacheLayer, usize),
    heads: Heads<'a>,
    /// The position of the first row.
    position: usize,
    /// The tiles of positions to compute.
    tiles: Range<usize>,
    /// Rows of q, of which `shared` are the columns of these heads.
    q: &'a [f32],
    shared: Range<usize>,
    /// Whether they are a prompt's: many queries meet a tile, and it is worth transposing.
    many: bool,
    scratch: &'a mut Scratch,
}

impl WithSimd for Queries<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            cache,
            place,
            heads,
            position,
            tiles: range,
            q,
            shared,
            many,
            scratch,
        } = self;
        let Heads {
            columns,
            activation,
            attention,
            ..
        } = heads;
        let head_dim = cache.info.kind(place.1).head_dim;
        let (rows, group) = (q.len() / columns, shared.len() / head_dim);
        let queries = rows * group;
        scratch.begin(queries, head_dim);
        let gathered = scratch.q.chunks_exact_mut(shared.len());
        for (to, q) in gathered.zip(q.chunks_exact(columns)) {
            to.copy_from_slice(&q[shared.clone()]);
        }
        let end = heads.seen_until(position + rows - 1);
        // The first row sees the earliest positions.
        let first = range.start.max(attention.seen_from(position) / TILE);
        for index in first..range.end.min(end.div_ceil(TILE)) {
            let [k, v] = cache.tile(place, index, end);
            // The next tile is prefetched during this multiplication. The next tile of another run often follows.
            if (index + 1) * TILE < end {
                cache
                    .tile(place, index + 1, end)
                    .into_iter()
                    .for_each(prefetch);
            }
            let [k_type, v_type] = cache.info.types.sides();
            decode((k_type, head_dim), activation, k, &mut scratch.tile);
            let q = &scratch.q[..queries * head_dim];
            let tile = &scratch.tile[..TILE * head_dim];
            let out = &mut scratch.scores[..queries * TILE];
            if many {
                let turned = &mut scratch.turned[..TILE * head_dim];
                turn(tile, head_dim, turned);
                out.fill(0.0);
                Weighted {
                    weights: q,
                    values: turned,
                    columns: TILE,
                    sums: out,
                }
                .with_simd(simd);
            } else {
                Dots {
                    left: q,
                    right: tile,
                    columns: head_dim,
                    out,
                }
                .with_simd(simd);
            }
            let scores = scratch.scores.as_chunks_mut().0.iter_mut();
            let sums = scratch.sums.chunks_exact_mut(head_dim);
            let softmax = scratch.softmax[..queries].iter_mut();
            for (query, ((scores, sums), softmax)) in scores.zip(sums).zip(softmax).enumerate() {
                // A row sees itself and all earlier positions, or all of its image.
                let position = position + query / group;
                let within = |at: usize| at.saturating_sub(index * TILE).min(TILE);
                let seen =
                    within(attention.seen_from(position))..within(heads.seen_until(position));
                softmax.add(scores, seen, &attention, sums);
            }
            decode((v_type, head_dim), activation, v, &mut scratch.tile);
            Weighted {
                weights: &scratch.scores[..queries * TILE],
                values: &scratch.tile[..TILE * head_dim],
                columns: head_dim,
                sums: &mut scratch.sums[..queries * head_dim],
            }
            .with_simd(simd);
        }
    }
}

/// Decodes positions of the cache; missing positions of a tile are zero.
#[inline(always)]
fn decode((element, head_dim): (KvType, usize), activation: DType, bytes: &[u8], tile: &mut [f32]) {
    let tile = &mut tile[..TILE * head_dim];
    let (held, others) = tile.split_at_mut(bytes.len() / element.bytes(head_dim) * head_dim);
    element.decode(head_dim, bytes, held);
    if element.number().is_none() {
        activation.round(held);
    }
    others.fill(0.0);
}

/// Transposes a tile.
#[inline(always)]
fn turn(tile: &[f32], head_dim: usize, to: &mut [f32]) {
    for (position, values) in tile.chunks_exact(head_dim).enumerate() {
        for (to, value) in to.as_chunks_mut::<TILE>().0.iter_mut().zip(values) {
            to[position] = *value;
        }
    }
}
