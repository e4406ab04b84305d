//! Attention of all patches to all patches, with a running softmax over tiles of patches (FlashAttention: Dao et al.
//! 2022).

use pulp::{Simd, WithSimd};

use super::super::dots::Dots;
use super::super::softmax::{Softmax, TILE, Weighted};
use super::super::threads::each;
use crate::tape::Attention;

/// The most rows of q that a thread computes at a time.
const ROWS: usize = 64;

/// Bytes that a thread needs for heads of a size.
pub(in crate::cpu) const fn thread_bytes(head_dim: usize) -> usize {
    4 * (2 * ROWS * head_dim + TILE * (head_dim + ROWS)) + ROWS * size_of::<Softmax>()
}

/// Computes `out = softmax(scale q K^T) V`: a row of qkv is `[q | k | v]`, each `columns` wide.
pub(super) fn attend(qkv: &[f32], head_dim: usize, scale: f32, columns: usize, out: &mut [f32]) {
    let rows = out.len() / columns;
    let arch = pulp::Arch::new();
    // The number of blocks is large enough for all threads.
    let block = rows
        .div_ceil(2 * rayon::current_num_threads())
        .clamp(1, ROWS);
    let attention = Attention {
        scale,
        ..Attention::plain(head_dim)
    };
    each(
        out.chunks_mut(block * columns).enumerate(),
        |(index, out): (usize, &mut [f32])| {
            let mut scratch = Scratch::new(head_dim);
            for head in 0..columns / head_dim {
                arch.dispatch(Head {
                    qkv,
                    columns,
                    attention,
                    first: index * block,
                    at: head * head_dim,
                    scratch: &mut scratch,
                    out: &mut *out,
                });
            }
        },
    );
}

/// Scratch memory of a thread.
struct Scratch {
    head_dim: usize,
    /// (ROWS, head_dim)
    q: Vec<f32>,
    /// (TILE, head_dim)
    tile: Vec<f32>,
    /// (ROWS, TILE): scores, then their weights.
    scores: Vec<f32>,
    /// (ROWS, head_dim): sums of V, not yet divided.
    sums: Vec<f32>,
    softmax: Vec<Softmax>,
}

impl Scratch {
    fn new(head_dim: usize) -> Self {
        Self {
            head_dim,
            q: vec![0.0; ROWS * head_dim],
            tile: vec![0.0; TILE * head_dim],
            scores: vec![0.0; ROWS * TILE],
            sums: vec![0.0; ROWS * head_dim],
            softmax: vec![Softmax::default(); ROWS],
        }
    }
}

/// A head of some rows of q.
struct Head<'a> {
    qkv: &'a [f32],
    /// The columns of q, of k and of v.
    columns: usize,
    attention: Attention,
    /// The first row of q.
    first: usize,
    /// The first column of the head.
    at: usize,
    scratch: &'a mut Scratch,
    /// (rows of q, columns)
    out: &'a mut [f32],
}

impl WithSimd for Head<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            qkv,
            columns,
            attention,
            first,
            at,
            scratch,
            out,
        } = self;
        let (wide, head_dim) = (3 * columns, scratch.head_dim);
        let (queries, keys) = (out.len() / columns, qkv.len() / wide);
        // The part of q (0), k (1) or v (2) of the head.
        let part = |row: usize, which: usize| {
            let from = row * wide + which * columns + at;
            &qkv[from..from + head_dim]
        };
        let rows = scratch.q.chunks_exact_mut(head_dim).take(queries);
        for (row, to) in (first..).zip(rows) {
            to.copy_from_slice(part(row, 0));
        }
        scratch.sums[..queries * head_dim].fill(0.0);
        scratch.softmax[..queries].fill(Softmax::default());
        for begin in (0..keys).step_by(TILE) {
            let seen = 0..TILE.min(keys - begin);
            gather(
                &mut scratch.tile,
                head_dim,
                begin..begin + seen.end,
                |row| part(row, 1),
            );
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
            for ((scores, sums), softmax) in scores.zip(sums).zip(softmax) {
                softmax.add(scores, seen.clone(), &attention, sums);
            }
            gather(
                &mut scratch.tile,
                head_dim,
                begin..begin + seen.end,
                |row| part(row, 2),
            );
            Weighted {
                weights: &scratch.scores[..queries * TILE],
                values: &scratch.tile,
                columns: head_dim,
                sums: &mut scratch.sums[..queries * head_dim],
            }
            .with_simd(simd);
        }
        let sums = scratch.sums.chunks_exact(head_dim).zip(&scratch.softmax);
        for (row, (sums, softmax)) in out.chunks_exact_mut(columns).zip(sums) {
            softmax.share(None, sums, &mut row[at..at + head_dim]);
        }
    }
}

/// Copies rows to a tile, whose other rows are zero.
#[inline(always)]
fn gather<'a>(
    tile: &mut [f32],
    head_dim: usize,
    rows: std::ops::Range<usize>,
    part: impl Fn(usize) -> &'a [f32],
) {
    let (held, others) = tile.split_at_mut(rows.len() * head_dim);
    for (row, to) in rows.zip(held.chunks_exact_mut(head_dim)) {
        to.copy_from_slice(part(row));
    }
    others.fill(0.0);
}
