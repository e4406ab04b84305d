//! A forward pass as a value: an ordered list of operations over named buffers.
//!
//! `model::forward` writes a tape for each number of rows, `check` proves it before its first run, and an executor runs
//! it. `enum Op` is closed and small, so that a missing match arm does not compile. A tape is never rewritten: it is a
//! list, not an intermediate representation.

mod activation;
mod attention;
mod bytes;
mod check;
mod hidden;
mod image;
mod kv_info;
mod op;
mod operands;
mod recurrent;
mod state_info;
mod vision;

pub use activation::Activation;
pub use attention::{Angles, Attention, HeadNorms, QueryScale, Rotation};
pub use bytes::StepBytes;
pub use check::TapeError;
pub use hidden::{Hidden, PLACES};
pub use image::{ImageRows, Sections};
pub use kv_info::{CacheLayer, KvHeads, KvInfo, KvKind};
pub use op::{Op, Projection};
pub use operands::{Buffer, BufferInfo, WeightId, WeightInfo};
pub use recurrent::{Convolution, GateOrder, Recurrent};
pub use state_info::{
    CHUNK, COLUMNS, HeadOrder, PART, StateHeads, StateInfo, StateLayout, StatePool, UPDATES,
    UpdateRule,
};
pub use vision::{Clip, Norm, NormKind, PatchOrder, Square, Vision};

use crate::quant::DType;

/// The most rows of a step.
pub const STEP_ROWS: usize = 8;

/// The source of a tape's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Rows of several conversations, each with the token and position of its slot's state.
    Step,
    /// The rows of a prompt, in order, from the position of the active slot.
    Prompt,
    /// The patches of an image. The host writes the first `buffers` of the tape before a run.
    Patches { buffers: usize },
}

/// The result of a tape, apart from the K and V of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// None: more of the prompt follows.
    Kv,
    /// The token after the last row of a prompt, or after each row of a step, stored in the slot's state.
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
    /// The type that the input of every matrix product is rounded to.
    pub activation: DType,
    pub kv: KvInfo,
    /// The recurrent state, in models with recurrent layers.
    pub state: Option<StateInfo>,
    pub buffers: Vec<BufferInfo>,
    pub weights: std::sync::Arc<[WeightInfo]>,
    pub ops: Vec<Op>,
}

impl Tape {
    #[must_use]
    pub fn buffer(&self, buffer: Buffer) -> &BufferInfo {
        &self.buffers[buffer.0]
    }

    /// The number of rows of logits after a run.
    #[must_use]
    pub fn scored_rows(&self) -> usize {
        let logits = self.ops.iter().find_map(|op| match op {
            Op::Head { logits, .. } => Some(*logits),
            _ => None,
        });
        logits.map_or(0, |logits| self.buffer(logits).rows)
    }

    /// Whether an operation and the next one may run as one kernel: a step's rotation, and the attention that is the only
    /// reader of the rotated queries. A rotation that stores
    /// nothing, or norms v, runs alone.
    #[must_use]
    pub fn is_fused_with_next(&self, index: usize) -> bool {
        let pair = (self.ops.get(index), self.ops.get(index + 1));
        let (
            Some(Op::RopeStore {
                layer,
                rotated,
                kv: Some(_),
                norms: HeadNorms { v: false, .. },
                ..
            }),
            Some(Op::Attend { layer: of, q, .. }),
        ) = pair
        else {
            return false;
        };
        self.input == Input::Step && layer == of && rotated == q
    }

    /// Returns the points at which a run can be preempted, each as the number of operations before it: after each
    /// addition to the residual stream.
    ///
    /// At these points only the buffers of `carried` and the cache are needed to continue.
    pub fn pauses(&self) -> impl Iterator<Item = usize> {
        let ops = self.ops.iter().enumerate();
        let added = ops.filter(|(_, op)| op.adds());
        added.map(|(at, _)| at + 1)
    }

    /// Those of `pauses` that divide the run into parts of at least `part_bytes`.
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

    /// The buffers that later operations read: the residual stream, the additional inputs of layers, and the normed
    /// embeddings that a head reads after all layers.
    #[must_use]
    pub fn carried(&self) -> Vec<Buffer> {
        let layers = self.ops.iter().position(Op::adds);
        let before = layers.unwrap_or(self.ops.len());
        let all = self.ops.iter().enumerate().filter_map(|(at, op)| match op {
            Op::Embed { x, .. } => Some(*x),
            Op::LayerInputs { inputs, .. } => Some(*inputs),
            Op::Norm { first: 0, out, .. } if at < before => Some(*out),
            _ => None,
        });
        let mut carried = Vec::new();
        for buffer in all {
            // A head with an embedding of its own has the residual stream filled twice.
            if !carried.contains(&buffer) {
                carried.push(buffer);
            }
        }
        carried
    }

    /// Whether the tape is a pass of a head, which guesses tokens: it reads hidden states before its layer, and these are
    /// those that the pass before it has left. It advances no slot.
    #[must_use]
    pub fn guesses(&self) -> bool {
        let continues = |op: &Op| {
            matches!(
                op,
                Op::Recurrent(Recurrent::Shift { .. }) | Op::Hidden(Hidden::Join { .. })
            )
        };
        let first = self.ops.iter().find(|op| op.adds() || continues(op));
        first.is_some_and(continues)
    }

    /// Whether the tape is a pass of an assistant, a head that stores no keys: all rows of a slot see the positions before its
    /// chosen token, and rotate by the position of that token.
    #[must_use]
    pub fn assists(&self) -> bool {
        let joins = |op: &Op| matches!(op, Op::Hidden(Hidden::Join { .. }));
        self.ops.iter().any(joins)
    }

    /// The number of tokens: the rows of the embeddings, which are the first weight.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.weights.first().map_or(0, |table| table.rows)
    }

    #[must_use]
    pub fn weight(&self, weight: WeightId) -> &WeightInfo {
        &self.weights[weight.0]
    }
}
