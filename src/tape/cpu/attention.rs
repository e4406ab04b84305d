//! Scaled dot-product attention over the cache (FlashAttention: Dao et al. 2022), by all threads.
//!
//! Parts of the positions are summed up one by one and added in order, so that threads can share those of a single row
//! (Flash-Decoding: Dao et al. 2023). Parts and tiles begin at multiples of their length, whatever the chunk, and a query
//! never meets a position that it does not see: so the bits of a row do not depend on the rows beside it.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::cache::Cache;
use super::part::{PART, Part, Queries, Tile};
use super::softmax::{Merge, Softmax};
use crate::tape::{DType, KvInfo};

/// The most rows that share a decoded tile.
const ROWS: usize = 16;

thread_local! {
    /// As long as has been needed so far.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The query heads of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    /// `heads * head_dim`
    pub(super) columns: usize,
    /// Of the first row.
    pub(super) position: usize,
    /// What is read of a cache of quants is rounded to.
    pub(super) activation: DType,
}

/// What query heads have summed up: of the whole, or of one part after the other.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// (parts, queries)
    softmax: Vec<Softmax>,
    /// (parts, queries, head_dim): not yet divided.
    values: Vec<f32>,
}

impl Sums {
    /// Makes room for a row of `columns`, at any position.
    pub(super) fn prepare(&mut self, kv: KvInfo, columns: usize) {
        self.room(queries_of_row(kv, columns), kv.head_dim);
    }

    /// Bytes that there are.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.softmax) + size_of_val(&*self.values)
    }

    /// Bytes of room for a row of `columns`, at any position.
    pub(super) fn bytes_of(kv: KvInfo, columns: usize) -> usize {
        queries_of_row(kv, columns) * bytes_of_query(kv.head_dim)
    }

    fn room(&mut self, queries: usize, head_dim: usize) -> (&mut [Softmax], &mut [f32]) {
        let values = queries * head_dim;
        if self.values.len() < values {
            self.softmax.resize(queries, Softmax::default());
            self.values.resize(values, 0.0);
        }
        (&mut self.softmax[..queries], &mut self.values[..values])
    }
}

/// Of the whole and of every part.
fn queries_of_row(kv: KvInfo, columns: usize) -> usize {
    (1 + kv.context.div_ceil(PART)) * columns / kv.head_dim
}

fn bytes_of_query(head_dim: usize) -> usize {
    size_of::<Softmax>() + size_of::<f32>() * head_dim
}

/// Bytes that a thread takes while it attends, with `columns` in a row of q.
pub(super) fn thread_bytes(kv: KvInfo, columns: usize) -> usize {
    let (queries, head_dim) = (ROWS * columns / kv.heads / kv.head_dim, kv.head_dim);
    let q = size_of::<f32>() * queries * head_dim;
    q + 2 * queries * bytes_of_query(head_dim) + Tile::bytes(queries, head_dim)
}

/// `out = softmax(q K^T / sqrt(head_dim)) V`; q and out are (rows, columns). There is room in `sums`.
pub(super) fn attend(
    cache: &Cache,
    layer: usize,
    heads: Heads,
    (q, out): (&[f32], &mut [f32]),
    sums: &mut Sums,
) {
    let Heads {
        columns, position, ..
    } = heads;
    let rows = q.len() / columns;
    if rows == 1 {
        return attend_row(cache, layer, heads, (q, out), sums);
    }
    // Enough blocks for every thread.
    let block = rows.div_ceil(2 * rayon::current_num_threads()).min(ROWS);
    let width = columns / cache.info.heads;
    q.par_chunks(block * columns)
        .zip(out.par_chunks_mut(block * columns))
        .enumerate()
        .for_each(|(index, (q, out))| {
            let heads = Heads {
                position: position + index * block,
                ..heads
            };
            SCRATCH.with_borrow_mut(|scratch| {
                for head in 0..cache.info.heads {
                    let shared = head * width..(head + 1) * width;
                    scratch.attend(cache, (layer, head), heads, shared, (q, out));
                }
            });
        });
}

/// A single row: threads share its parts.
fn attend_row(
    cache: &Cache,
    layer: usize,
    Heads {
        position,
        activation,
        ..
    }: Heads,
    (q, out): (&[f32], &mut [f32]),
    sums: &mut Sums,
) {
    let KvInfo {
        heads, head_dim, ..
    } = cache.info;
    let (queries, width) = (q.len() / head_dim, q.len() / heads);
    let (softmax, parts_softmax) = sums.softmax.split_at_mut(queries);
    let (values, parts_values) = sums.values.split_at_mut(q.len());
    let arch = pulp::Arch::new();
    let parts = (position + 1).div_ceil(PART);
    parts_softmax[..parts * queries]
        .par_chunks_exact_mut(width / head_dim)
        .zip(parts_values.par_chunks_exact_mut(width))
        .enumerate()
        .for_each(|(index, (softmax, sums))| {
            let (part, head) = (index / heads, index % heads);
            let queries = Queries {
                cache,
                place: (layer, head),
                position,
                activation,
                q: &q[head * width..][..width],
                group: width / head_dim,
            };
            SCRATCH.with_borrow_mut(|Scratch { tile, .. }| {
                arch.dispatch(Part {
                    queries,
                    index: part,
                    tile,
                    softmax,
                    sums,
                });
            });
        });
    softmax.fill(Softmax::default());
    values.fill(0.0);
    let parts = parts_softmax[..parts * queries].chunks_exact(queries);
    for part in parts.zip(parts_values.chunks_exact(q.len())) {
        arch.dispatch(Merge {
            whole: (softmax, values),
            part,
            head_dim,
        });
    }
    divide(values, softmax, head_dim, out);
}

/// What a thread computes in.
#[derive(Debug, Default)]
struct Scratch {
    /// (queries, head_dim)
    q: Vec<f32>,
    tile: Tile,
    /// Of one part.
    part: Sums,
    whole: Sums,
}

impl Scratch {
    /// Of rows of q and out the `shared` columns: those of the query heads that share a head of the cache.
    fn attend(
        &mut self,
        cache: &Cache,
        place: (usize, usize),
        Heads {
            columns,
            position,
            activation,
        }: Heads,
        shared: Range<usize>,
        (q, out): (&[f32], &mut [f32]),
    ) {
        let (arch, head_dim) = (pulp::Arch::new(), cache.info.head_dim);
        let group = shared.len() / head_dim;
        self.q.clear();
        for row in q.chunks_exact(columns) {
            self.q.extend_from_slice(&row[shared.clone()]);
        }
        let queries = Queries {
            cache,
            place,
            position,
            activation,
            q: &self.q,
            group,
        };
        let count = queries.q.len() / head_dim;
        let (softmax, values) = self.whole.room(count, head_dim);
        softmax.fill(Softmax::default());
        values.fill(0.0);
        let (of_part, sums) = self.part.room(count, head_dim);
        for part in 0..queries.positions().div_ceil(PART) {
            arch.dispatch(Part {
                queries,
                index: part,
                tile: &mut self.tile,
                softmax: of_part,
                sums,
            });
            // Those that see something of it.
            let blind = (part * PART).saturating_sub(position) * group;
            arch.dispatch(Merge {
                whole: (&mut softmax[blind..], &mut values[blind * head_dim..]),
                part: (&of_part[blind..], &sums[blind * head_dim..]),
                head_dim,
            });
        }
        let values = values.chunks_exact(group * head_dim);
        let rows = values.zip(softmax.chunks_exact(group));
        for ((values, softmax), out) in rows.zip(out.chunks_exact_mut(columns)) {
            divide(values, softmax, head_dim, &mut out[shared.clone()]);
        }
    }
}

/// Sums of V, divided by the sums of their weights.
fn divide(values: &[f32], softmax: &[Softmax], head_dim: usize, out: &mut [f32]) {
    let queries = values.chunks_exact(head_dim).zip(softmax);
    for ((values, softmax), out) in queries.zip(out.chunks_exact_mut(head_dim)) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value / softmax.sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Heads, PART, Sums, attend};
    use crate::tape::cpu::cache::Cache;
    use crate::tape::{DType, KvInfo, KvType};

    const POSITIONS: usize = 2 * PART + 40;
    const COLUMNS: usize = 6 * 48;

    #[test]
    fn a_row_alone_has_the_bits_that_it_has_in_any_chunk() {
        for element in KvType::ALL {
            let kv = KvInfo {
                layers: 1,
                heads: 2,
                head_dim: 48,
                context: POSITIONS,
                slots: 1,
                element,
            };
            let mut rng = fastrand::Rng::with_seed(7);
            let mut floats =
                |len: usize| -> Vec<f32> { (0..len).map(|_| rng.f32() - 0.5).collect() };
            let mut cache = Cache::new(kv);
            cache.store(0, 0, &floats(POSITIONS * 96), &floats(POSITIONS * 96));
            let q = floats(POSITIONS * COLUMNS);
            let mut sums = Sums::default();
            sums.prepare(kv, COLUMNS);
            let mut attended = |position: usize, rows: usize| {
                let heads = Heads {
                    columns: COLUMNS,
                    position,
                    activation: DType::F16,
                };
                let mut out = vec![f32::NAN; rows * COLUMNS];
                let q = &q[position * COLUMNS..][..out.len()];
                attend(&cache, 0, heads, (q, &mut out), &mut sums);
                out.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            };
            let whole = attended(0, POSITIONS);
            let alone: Vec<u32> = (0..POSITIONS).flat_map(|row| attended(row, 1)).collect();
            assert!(whole == alone, "{element:?}: alone");
            let (first, second) = whole.split_at((PART - 7) * COLUMNS);
            assert!(first == attended(0, PART - 7), "{element:?}: first chunk");
            let rest = attended(PART - 7, POSITIONS - PART + 7);
            assert!(second == rest, "{element:?}: second chunk");
        }
    }
}
