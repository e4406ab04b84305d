//! A case: operations, rows, positions and inputs.

use std::ops::Range;

use crate::sampler::{Mask, Parameters};
use crate::tape::{Buffer, Input, Op, Recurrent, Tape};

/// One operation on random inputs, or two that are one kernel on a GPU.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub tape: Tape,
    /// The slot of the first row.
    pub(super) slot: usize,
    /// The position of the first row.
    pub position: usize,
    /// Slot and position of the other rows of a step.
    pub(super) others: Vec<(usize, usize)>,
    /// The tokens of the first rows. The other rows are padding, whose results do not matter.
    pub(super) tokens: Vec<u32>,
    pub(super) parameters: Parameters,
    /// The mask of each choice.
    pub(super) mask: Option<Mask>,
    /// Earlier tokens, for the sampler.
    pub(super) history: Vec<u32>,
    pub(super) logits: Logits,
    /// The number of runs. Each starts from the same buffers, in the state after the last run.
    pub(super) runs: usize,
    pub(super) seed: u64,
    /// The distance from positions in the cache to those that rows of text rotate by.
    pub(super) offset: isize,
    /// The rows of each image of a prompt.
    pub(super) images: Vec<Range<usize>>,
}

/// The distribution of the logits that a token is chosen from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Logits {
    #[default]
    Normal,
    /// A few logits are high, and the rest cannot be drawn. No sum of rounded weights decides.
    Peaked,
    /// Several logits share the maximum.
    Tied,
    /// One logit is not finite.
    With(f32),
}

impl Case {
    /// The last operation, apart from the end of a prompt of recurrent layers. Its outputs are compared, and the others prepare
    /// its inputs.
    #[must_use]
    pub fn op(&self) -> &Op {
        let ends = |op: &&Op| matches!(op, Op::Recurrent(Recurrent::Swap));
        let last = self.tape.ops.iter().rev().find(|op| !ends(op));
        last.unwrap_or(&self.tape.ops[0])
    }

    /// The buffers that are read before they are written.
    pub(super) fn reads(&self) -> Vec<Buffer> {
        let (mut reads, mut written) = (Vec::new(), Vec::new());
        for (read, wrote) in self.tape.ops.iter().map(Op::buffers) {
            for buffer in read {
                if !written.contains(&buffer) && !reads.contains(&buffer) {
                    reads.push(buffer);
                }
            }
            written.extend(wrote);
        }
        reads
    }

    /// The buffers that may be written.
    pub(super) fn writes(&self) -> Vec<Buffer> {
        let ops = self.tape.ops.iter();
        ops.flat_map(|op| op.buffers().1).collect()
    }

    /// The rotation, if there is one.
    pub(super) fn rotates(&self) -> Option<&Op> {
        let mut ops = self.tape.ops.iter();
        ops.find(|op| matches!(op, Op::RopeStore { .. }))
    }

    /// The rotation, if it stores in the cache.
    pub(super) fn stores(&self) -> Option<&Op> {
        self.rotates()
            .filter(|op| matches!(op, Op::RopeStore { kv: Some(_), .. }))
    }

    /// Slot and position of each row that is not padding.
    pub(super) fn rows(&self) -> Vec<(usize, usize)> {
        let runs = self.runs().into_iter();
        runs.flat_map(|(slot, positions)| positions.map(move |at| (slot, at)))
            .collect()
    }

    /// Slot and position of each row of a step, or of a prompt's first row.
    pub(super) fn places(&self) -> Vec<(usize, usize)> {
        let first = std::iter::once((self.slot, self.position));
        first.chain(self.others.iter().copied()).collect()
    }

    /// The positions of the rows, by slot.
    pub(super) fn runs(&self) -> Vec<(usize, Range<usize>)> {
        let rows = if self.tape.input == Input::Step {
            1
        } else {
            self.tokens.len()
        };
        let places = self.places().into_iter();
        places.map(|(slot, at)| (slot, at..at + rows)).collect()
    }

    /// Sets the number of rows of a buffer.
    pub(super) fn set_rows(&mut self, Buffer(buffer): Buffer, rows: usize) {
        self.tape.buffers[buffer].rows = rows;
    }

    /// Makes the last `rows` padding.
    pub(super) fn pad(&mut self, rows: usize) {
        if rows > 0 {
            self.tokens.truncate(self.tape.rows - rows);
            self.others.truncate(self.tokens.len() - 1);
            self.name = format!("{} padded by {rows}", self.name);
        }
    }
}
