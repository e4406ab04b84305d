//! The context of a launch: kernels, memory and addresses.

use super::kernels::Kernels;
use super::memory::{Buffers, MatrixPart, Weight};
use super::narrow::narrow;
use super::pages::Pages;
use crate::device::{Places, Tiles};
use crate::graph::Trace;
use crate::tape::{Buffer, KvInfo, Tape, WeightId};

/// Threads of a block of a kernel that has no other number of its own: `THREADS` of `kernels/common.cuh`.
pub(super) const THREADS: u32 = 256;
/// Blocks of `sample.cu` for a row.
pub(super) const SAMPLE_BLOCKS: u32 = 32;

/// Addresses that never change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    pub(super) conversations: u64,
    pub(super) tables: u64,
    /// The rows of a step.
    pub(super) rows: u64,
    /// The command of a prompt, then its tokens.
    pub(super) prompt: u64,
    pub(super) sequence: u64,
    pub(super) angles: u64,
    /// Bytes from one table of angles to the next.
    pub(super) angles_pitch: u64,
    pub(super) arrivals: u64,
    pub(super) best: u64,
    pub(super) masks: u64,
    /// The mask of conversations without a guide; 0: they allow all tokens.
    pub(super) allowed: u64,
    /// The rows of a prompt with images.
    pub(super) shown: u64,
    /// Words of a slot's mask.
    pub(super) mask_words: u32,
    /// Addresses of pinned memory: commands of steps, chosen tokens and their scores, and the host's page tables.
    pub(super) steps: u64,
    pub(super) tokens: u64,
    pub(super) scores: u64,
    pub(super) host_tables: u64,
}

/// Everything that a launch needs. It does not change while a tape runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) multiprocessors: u32,
    pub(super) weights: &'a [Weight],
    pub(super) buffers: &'a Buffers,
    pub(super) addresses: &'a Addresses,
    pub(super) pages: &'a Pages,
    pub(super) kv: KvInfo,
    /// The table of recurrent states; 0 without any.
    pub(super) states: u64,
}

impl Work<'_> {
    /// Adds the addresses that launches share to a trace, by name.
    pub(super) fn places(&self, tape: &Tape, trace: &mut Trace) {
        for (index, info) in tape.buffers.iter().enumerate() {
            trace.place(info.name, self.buffer(Buffer(index)));
        }
        trace.place("normed", self.buffers.normed());
        trace.place("sums", self.buffers.sums());
        trace.place("partials", self.buffers.partials());
        trace.place("conversations", self.addresses.conversations);
        trace.place("tables", self.addresses.tables);
        trace.place("angles", self.addresses.angles);
        trace.place("states", self.states);
    }

    pub(super) fn places_of(&self, step: bool) -> Places {
        let at = self.addresses;
        Places {
            conversations: at.conversations,
            tables: at.tables,
            rows: if step { at.rows } else { at.prompt },
            pages: narrow(self.kv.blocks() * self.kv.groups()),
            step: step.into(),
        }
    }

    pub(super) fn buffer(&self, buffer: Buffer) -> u64 {
        self.buffers.address(buffer)
    }

    pub(super) fn vector(&self, id: WeightId) -> u64 {
        self.weights[id.0].vector()
    }

    pub(super) fn parts(&self, id: WeightId) -> &[MatrixPart] {
        self.weights[id.0].parts()
    }

    /// A matrix in one chunk. Only embeddings and heads have several.
    pub(super) fn whole(&self, id: WeightId) -> Tiles {
        self.parts(id)[0].tiles
    }
}
