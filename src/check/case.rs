//! A case: what runs, from what position, on which inputs.

use crate::sampler::{Mask, Parameters};
use crate::tape::{Buffer, Input, Op, Tape};

/// One operation on random inputs, or two that a GPU makes one kernel of.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub tape: Tape,
    /// The entry of the cache that its first row is in.
    pub(super) entry: usize,
    /// Its first row stands there.
    pub position: usize,
    /// Entry and position of a step's other rows.
    pub(super) others: Vec<(usize, usize)>,
    /// The tokens of its first rows; the others only fill it up, and what becomes of them does not matter.
    pub(super) tokens: Vec<u32>,
    pub(super) parameters: Parameters,
    /// What may be chosen, each time.
    pub(super) mask: Option<Mask>,
    /// What was there before, for the sampler.
    pub(super) history: Vec<u32>,
    pub(super) logits: Logits,
    /// How often it runs, each time from the same buffers, in the state that the last left.
    pub(super) runs: usize,
    pub(super) seed: u64,
}

/// How the logits lie that a token is chosen from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Logits {
    #[default]
    Normal,
    /// A few stand out, and the rest cannot be drawn: no sum of rounded weights decides.
    Peaked,
    /// Several share the greatest.
    Tied,
    /// One is not finite.
    With(f32),
}

impl Case {
    /// The last: what the others prepare, and whose outputs are compared.
    #[must_use]
    pub fn op(&self) -> &Op {
        &self.tape.ops[self.tape.ops.len() - 1]
    }

    /// Buffers that it reads before it has written them.
    pub(super) fn reads(&self) -> Vec<Buffer> {
        let (mut reads, mut written) = (Vec::new(), Vec::new());
        for (read, wrote) in self.tape.ops.iter().map(Op::buffers) {
            reads.extend(read.into_iter().filter(|buffer| !written.contains(buffer)));
            written.extend(wrote);
        }
        reads
    }

    /// Buffers that it may write.
    pub(super) fn writes(&self) -> Vec<Buffer> {
        let ops = self.tape.ops.iter();
        ops.flat_map(|op| op.buffers().1).collect()
    }

    /// What it stores in the cache, if it does.
    pub(super) fn stores(&self) -> Option<&Op> {
        let mut ops = self.tape.ops.iter();
        ops.find(|op| matches!(op, Op::RopeStore { .. }))
    }

    /// Region and position of each of its real rows.
    pub(super) fn rows(&self) -> Vec<(usize, usize)> {
        let runs = self.runs().into_iter();
        runs.flat_map(|(entry, positions)| positions.map(move |at| (entry, at)))
            .collect()
    }

    /// Region and position of each row of a step; of a prompt its first.
    pub(super) fn places(&self) -> Vec<(usize, usize)> {
        let first = std::iter::once((self.entry, self.position));
        first.chain(self.others.iter().copied()).collect()
    }

    /// The positions of its rows, by entry.
    pub(super) fn runs(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        let rows = if self.tape.input == Input::Step {
            1
        } else {
            self.tokens.len()
        };
        let places = self.places().into_iter();
        places.map(|(entry, at)| (entry, at..at + rows)).collect()
    }

    /// Gives a buffer its own number of rows.
    pub(super) fn set_rows(&mut self, Buffer(buffer): Buffer, rows: usize) {
        self.tape.buffers[buffer].rows = rows;
    }

    /// Has its last `rows` only fill it up.
    pub(super) fn pad(&mut self, rows: usize) {
        if rows > 0 {
            self.tokens.truncate(self.tape.rows - rows);
            self.others.truncate(self.tokens.len() - 1);
            self.name = format!("{} padded by {rows}", self.name);
        }
    }
}
