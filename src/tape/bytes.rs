//! The bytes that each operation has to move, which limit the speed of decoding.

use super::attention::Attention;
use super::op::Op;
use super::{Input, Tape};

impl Op {
    /// Bytes that this operation has to read and write once, in a run that starts at `position`.
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
                // An embedding reads only the rows of the tokens.
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
                // Each row of a step reads its own conversation.
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

/// The bytes that a step has to move, at any position. They are needed for each token of an answer, so the operations
/// are summed only once.
#[derive(Clone, Debug)]
pub struct StepBytes {
    /// The bytes that do not depend on the position.
    fixed: u64,
    /// The number of layers for each window.
    layers: Vec<(Attention, u64)>,
    position: u64,
}

impl StepBytes {
    /// The bytes of a step with the rows of `tape`.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let mut layers: Vec<(Attention, u64)> = Vec::new();
        for op in &tape.ops {
            let Op::Attend { attention, .. } = op else {
                continue;
            };
            let alike = |(other, _): &&mut (Attention, u64)| other.window == attention.window;
            match layers.iter_mut().find(alike) {
                Some((_, count)) => *count += 1,
                None => layers.push((*attention, 1)),
            }
        }
        let position = (tape.rows * (tape.kv.bytes_per_position() / tape.kv.layers)) as u64;
        let mut bytes = Self {
            fixed: tape.ops.iter().map(|op| op.bytes(tape, 0)).sum(),
            layers,
            position,
        };
        bytes.fixed -= bytes.cache_at(0);
        bytes
    }

    /// The bytes of a step that starts at `position`.
    #[must_use]
    pub fn at(&self, position: usize) -> u64 {
        self.fixed + self.cache_at(position)
    }

    fn cache_at(&self, position: usize) -> u64 {
        let seen = |attention: &Attention| (position + 1 - attention.seen_from(position)) as u64;
        let layers = self.layers.iter();
        let positions: u64 = layers.map(|(of, count)| count * seen(of)).sum();
        positions * self.position
    }
}
