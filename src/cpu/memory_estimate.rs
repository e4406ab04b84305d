//! The lengths of buffers, and the host memory that a model needs.

use super::{attention, vision};
use crate::executor::{MemoryEstimate, PLACES};
use crate::tape::{Buffer, KvHeads, Op, Tape, Vision, WeightInfo};

/// Elements of each buffer.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    pub(super) activations: Vec<usize>,
    /// The length of the buffers that a preempted run continues with.
    pub(super) saved: usize,
    pub(super) normed: usize,
    pub(super) product: usize,
    pub(super) partials: usize,
}

impl Lengths {
    /// The lengths that are enough for each of these tapes.
    pub(super) fn of(tapes: &[&Tape]) -> Self {
        let mut lengths = Self::default();
        for tape in tapes {
            let buffers = tape.buffers.iter().map(|info| info.rows * info.columns);
            for (index, length) in buffers.enumerate() {
                if index == lengths.activations.len() {
                    lengths.activations.push(0);
                }
                lengths.activations[index] = lengths.activations[index].max(length);
            }
            let carried = tape.carried().into_iter();
            let carried = carried.map(|Buffer(buffer)| lengths.activations[buffer]);
            lengths.saved = lengths.saved.max(carried.sum());
            let length = |buffers: Vec<Buffer>| -> usize {
                let buffers = buffers.into_iter().map(|buffer| tape.buffer(buffer));
                buffers.map(|info| info.rows * info.columns).sum()
            };
            // Gates and hidden states have no scratch memory, and the operations of vision towers take a block of rows at a time.
            let others = || {
                tape.ops
                    .iter()
                    .filter(|op| !matches!(op, Op::Vision(_) | Op::Gate { .. } | Op::Hidden(_)))
            };
            let longest = |of: fn(&Op) -> Vec<Buffer>| {
                let lengths = others().map(|op| length(of(op)));
                lengths.max().unwrap_or(0)
            };
            for [rounded, product] in tape.ops.iter().map(|op| vision::scratch(op, tape)) {
                lengths.normed = lengths.normed.max(rounded);
                lengths.product = lengths.product.max(product);
            }
            lengths.normed = lengths.normed.max(longest(|op| op.buffers().0));
            lengths.product = lengths.product.max(longest(|op| match op {
                Op::RopeStore { kv, .. } => kv.iter().flatten().copied().collect(),
                op => op.buffers().1,
            }));
            for (kv, columns) in attends(tape) {
                let partials = attention::partials(kv, columns);
                lengths.partials = lengths.partials.max(partials);
            }
        }
        lengths
    }

    pub(super) fn bytes(&self) -> usize {
        let activations = self.activations.iter().sum::<usize>() + PLACES * self.saved;
        4 * (activations + self.normed + self.product + self.partials)
    }
}

/// The memory that `Cpu` needs to run these tapes on a number of threads; 0 is one thread for each core.
#[must_use]
pub fn memory_estimate(tapes: &[&Tape], threads: usize) -> MemoryEstimate {
    let Some(tape) = tapes.first() else {
        return MemoryEstimate::default();
    };
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let of_thread = attends(tape).map(|(kv, columns)| attention::thread_bytes(kv, columns));
    let of_thread = of_thread.chain(attends_all(tape).map(vision::thread_bytes));
    let activations = Lengths::of(tapes).bytes() + threads * of_thread.max().unwrap_or(0);
    MemoryEstimate {
        weights: tape.weights.iter().map(bytes).sum(),
        kv: tape.kv.bytes() as u64,
        states: tape.state.map_or(0, |state| state.bytes()) as u64,
        activations: activations as u64,
    }
}

/// The heads of the cache and the columns of the queries of each attention.
fn attends(tape: &Tape) -> impl Iterator<Item = (KvHeads, usize)> {
    tape.ops.iter().filter_map(|op| match op {
        Op::Attend { layer, q, .. } => Some((tape.kv.heads_of(*layer), tape.buffer(*q).columns)),
        _ => None,
    })
}

/// The size of the heads of each attention of a vision tower.
fn attends_all(tape: &Tape) -> impl Iterator<Item = usize> {
    tape.ops.iter().filter_map(|op| match *op {
        Op::Vision(Vision::Attend { heads, out, .. }) => Some(tape.buffer(out).columns / heads),
        _ => None,
    })
}

/// Bytes of a weight in memory: a matrix as in its file, a vector as f32.
fn bytes(weight: &WeightInfo) -> u64 {
    let WeightInfo {
        rows,
        columns,
        format,
        ..
    } = *weight;
    let row = if rows == 1 {
        4 * columns
    } else {
        format.row_bytes(columns)
    };
    (rows * row) as u64
}
