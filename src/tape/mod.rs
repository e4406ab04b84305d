//! A forward pass as a value: an ordered list of operations over named buffers.
//!
//! `model::forward` writes a tape once for each number of rows, `check` proves it before its first
//! run, and an executor runs it. `enum Op` is closed and small, so a missing arm does not compile.
//! Nothing ever rewrites a tape: it is a list, not an intermediate representation.

mod attention;
mod bytes;
mod check;
mod dtype;
mod filling;
mod kv_type;
mod kv_types;
mod memory_estimate;
mod op;
mod q8_0;
mod step;

pub use attention::{Angles, Attention, QueryScale, Rotation};
pub use bytes::StepBytes;
pub use check::TapeError;
pub use dtype::DType;
pub use filling::{FLIGHT_BYTES, FillError, PIECE_BYTES, Source, in_flight, pieces_at_once};
pub use kv_type::KvType;
pub use kv_types::KvTypes;
pub use memory_estimate::MemoryEstimate;
pub use op::{Op, Projection};
pub use step::{ExecuteError, Span, StepState, StepTimes, Timed};

use crate::graph::{Budget, Mode};
use crate::quant::Format;

/// What an executor records, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    pub mode: Mode,
    /// Rows to which short prompts are padded (`Mode::Full`).
    pub capture_sizes: Vec<usize>,
    /// Recorded prompts may take so much.
    pub budget: Budget,
    /// Whether prompts are recorded when the model has been loaded, rather than on their first use.
    pub record_at_start: bool,
    /// Whether every replay is checked against what it was recorded with.
    pub verify_addresses: bool,
    /// Launches of what was recorded that are refused on purpose, from the first.
    pub refuse_launches: u32,
    /// A step may be left where it has moved so many bytes, and so many again.
    pub part_bytes: u64,
}

/// What an H100 reads in 0.3 ms and an Orin in 3: much less would cost the one too much for what is launched, much more would
/// have whoever comes wait.
const PART_BYTES: u64 = 512 << 20;

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            capture_sizes: vec![16, 32, 64, 128],
            budget: Budget {
                graphs: 16,
                bytes: 64 << 20,
            },
            record_at_start: false,
            verify_addresses: false,
            refuse_launches: 0,
            part_bytes: PART_BYTES,
        }
    }
}

/// A buffer of activations: `rows * columns` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(pub usize);

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    pub name: &'static str,
    pub rows: usize,
    pub columns: usize,
    pub dtype: DType,
}

/// A weight, by its place in the executor's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub usize);

/// What a tape knows of a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightInfo {
    pub name: String,
    pub rows: usize,
    pub columns: usize,
    pub format: Format,
}

/// Rows of a step, at most.
pub const STEP_ROWS: usize = 8;

pub use crate::kv::PAGE;

/// The key-value cache that a tape reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvInfo {
    pub layers: usize,
    pub heads: usize,
    pub head_dim: usize,
    /// The most positions of one conversation.
    pub context: usize,
    /// Conversations that may be answered at once, each an entry of what an executor knows of them.
    pub entries: usize,
    /// Pages of `PAGE` positions that all conversations share.
    pub pages: usize,
    /// Pages whose memory is allocated at once, and given back at once.
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

    /// Where K, then V, of a layer begins in a page.
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

/// Where a tape's tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Rows of conversations, each with the token and position of its own `StepState`.
    Step,
    /// The prompt's rows, in order, from the position of `StepState`.
    Prompt,
}

/// What a tape leaves behind besides the KV of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Nothing: more of the prompt follows.
    Kv,
    /// The token that follows the last row of a prompt, or each row of a step, chosen and left in `StepState`.
    Token,
    /// The logits of every row.
    Logits,
}

/// One forward pass of `rows` rows.
#[derive(Clone, Debug)]
pub struct Tape {
    pub rows: usize,
    pub input: Input,
    pub ending: Ending,
    /// The type that every matrix multiplication's input is rounded to.
    pub activation: DType,
    pub kv: KvInfo,
    pub buffers: Vec<BufferInfo>,
    pub weights: std::sync::Arc<[WeightInfo]>,
    pub ops: Vec<Op>,
}

impl Tape {
    #[must_use]
    pub fn buffer(&self, buffer: Buffer) -> &BufferInfo {
        &self.buffers[buffer.0]
    }

    /// Rows of logits that a run of it leaves.
    #[must_use]
    pub fn scored_rows(&self) -> usize {
        let logits = self.ops.iter().find_map(|op| match op {
            Op::Head { logits, .. } => Some(*logits),
            _ => None,
        });
        logits.map_or(0, |logits| self.buffer(logits).rows)
    }

    /// Where a run may be left, as places in the list of operations: whoever goes on from one needs the residual stream and the
    /// cache, and nothing else. That is so in the middle of each layer, behind attention, and at its end.
    pub fn pauses(&self) -> impl Iterator<Item = usize> {
        let ops = self.ops.iter().enumerate();
        let added = ops.filter(|(_, op)| matches!(op, Op::Project { .. }));
        added.map(|(at, _)| at + 1)
    }

    /// Those of these places between which so many bytes are moved, or a little more.
    #[must_use]
    pub fn cuts(&self, part_bytes: u64) -> Vec<usize> {
        let (mut first, mut moved) = (0, 0);
        let mut cuts: Vec<_> = self.pauses().collect();
        cuts.retain(|pause| {
            let ops = &self.ops[first..*pause];
            moved += ops.iter().map(|op| op.bytes(self, 0)).sum::<u64>();
            first = *pause;
            let is_cut = moved >= part_bytes;
            moved = if is_cut { 0 } else { moved };
            is_cut
        });
        cuts
    }

    /// The residual stream, which embeddings begin.
    #[must_use]
    pub fn residual_stream(&self) -> Option<Buffer> {
        self.ops.iter().find_map(|op| match op {
            Op::Embed { x, .. } => Some(*x),
            _ => None,
        })
    }

    /// Tokens that the table of embeddings has, which is the first weight.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.weights.first().map_or(0, |table| table.rows)
    }

    #[must_use]
    pub fn weight(&self, weight: WeightId) -> &WeightInfo {
        &self.weights[weight.0]
    }
}
