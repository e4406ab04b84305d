//! The bytes that each operation must move: what decoding's speed is measured against.

use super::{Input, Op, Tape};

impl Op {
    /// Bytes that this operation must read and write once, in a run that starts at `position`.
    #[must_use]
    pub fn bytes(&self, tape: &Tape, position: usize) -> u64 {
        let (reads, writes) = self.buffers();
        let buffers: usize = reads
            .iter()
            .chain(&writes)
            .map(|buffer| tape.buffer(*buffer))
            .map(|buffer| buffer.rows * buffer.columns * buffer.dtype.bytes())
            .sum();
        let weights: usize = self
            .weights()
            .iter()
            .map(|id| tape.weight(*id))
            .map(|weight| {
                // Of an embedding only the rows of the tokens are read.
                let rows = if matches!(self, Self::Embed { .. }) {
                    tape.rows
                } else {
                    weight.rows
                };
                rows * weight.format.row_bytes(weight.columns)
            })
            .sum();
        let position_bytes = tape.kv.bytes_per_position() / tape.kv.layers;
        let kv = match self {
            Self::RopeStore { .. } => tape.rows * position_bytes,
            Self::Attend { attention, .. } => {
                let seen = |rows: usize| position + rows - attention.seen_from(position);
                // A step's rows are conversations of their own.
                let all = match tape.input {
                    Input::Step => tape.rows * seen(1),
                    Input::Prompt => seen(tape.rows),
                };
                all * position_bytes
            }
            _ => 0,
        };
        (buffers + weights + kv) as u64
    }
}

impl Tape {
    /// Bytes that the whole tape must move, in a run that starts at `position`.
    #[must_use]
    pub fn bytes(&self, position: usize) -> u64 {
        self.ops.iter().map(|op| op.bytes(self, position)).sum()
    }
}
