//! The bytes that each operation has to move, which limit the speed of decoding.

use super::attention::Attention;
use super::kv_info::CacheLayer;
use super::op::Op;
use super::recurrent::Recurrent;
use super::vision::Vision;
use super::{Input, STEP_ROWS, Tape};

/// Bytes of K and V of one position in a layer.
fn position_bytes(tape: &Tape, layer: CacheLayer) -> usize {
    tape.kv.kind(layer).position_bytes(tape.kv.types)
}

impl Op {
    /// Bytes that this operation has to read and write once, in a run that starts at `position`.
    #[must_use]
    pub fn bytes(&self, tape: &Tape, position: usize) -> u64 {
        let (reads, writes) = self.buffers();
        let buffers: usize = reads
            .iter()
            .chain(&writes)
            .map(|buffer| {
                let info = tape.buffer(*buffer);
                // A gate reads as many columns of its input as it has itself.
                let columns = match self {
                    Self::Gate { gate, .. } => tape.buffer(*gate).columns,
                    Self::Images(op) => tape.buffer(op.x()).columns,
                    // A norm fills a part of its buffer's columns.
                    Self::Norm { x, .. } => tape.buffer(*x).columns,
                    // A product may fill a part of its buffer's columns.
                    Self::Vision(Vision::Linear { weight, out, .. }) if out == buffer => {
                        tape.weight(*weight).rows
                    }
                    _ => info.columns,
                };
                let rows = match self {
                    // A step reads or writes only the ring places of its rows.
                    Self::Hidden(op) if op.ring() == *buffer => tape.rows.min(STEP_ROWS),
                    _ => info.rows,
                };
                rows * columns * info.dtype.bytes()
            })
            .sum();
        let weights: usize = self
            .weights()
            .iter()
            .map(|id| {
                let weight = tape.weight(*id);
                let gathered = self.gathered() == Some(*id);
                let rows = if gathered { tape.rows } else { weight.rows };
                rows * weight.format.row_bytes(weight.columns)
            })
            .sum();
        let kv = match self {
            Self::RopeStore {
                layer, kv: Some(_), ..
            } => tape.rows * position_bytes(tape, *layer),
            Self::Attend {
                layer, attention, ..
            } => {
                let seen = |rows: usize| position + rows - attention.seen_from(position);
                // Each row of a step reads its own conversation.
                let all = match tape.input {
                    Input::Step => tape.rows * seen(1),
                    Input::Prompt | Input::Patches { .. } => seen(tape.rows),
                };
                all * position_bytes(tape, *layer)
            }
            _ => 0,
        };
        let state = match self {
            Self::Recurrent(op) => op.state_bytes(tape),
            _ => 0,
        };
        (buffers + weights + kv + state) as u64
    }
}

impl Recurrent {
    /// Bytes of recurrent state and of its rings. A state is read and written once, for any number of rows of its
    /// conversation; each row of a step has its own conversation.
    fn state_bytes(&self, tape: &Tape) -> usize {
        let Some(info) = tape.state else {
            return 0;
        };
        let (conversations, written) = match tape.input {
            Input::Step => (tape.rows, tape.rows),
            Input::Prompt | Input::Patches { .. } => (1, info.taps - 1),
        };
        // The pending update of the row before, and that of the row itself.
        let updates = match tape.input {
            Input::Step => 2 * info.update_bytes(),
            Input::Prompt | Input::Patches { .. } => 0,
        };
        match self {
            Self::Convolve { .. } | Self::ShortConv { .. } => {
                (conversations * (info.taps - 1) + written) * info.column_bytes()
            }
            Self::Shift { .. } => {
                let written = match tape.input {
                    Input::Step => written,
                    Input::Prompt | Input::Patches { .. } => 1,
                };
                (conversations + written) * info.hidden_bytes()
            }
            Self::DeltaNet { .. } | Self::Mamba2 { .. } => {
                conversations * (2 * info.state_bytes() + updates)
            }
            Self::Commit => {
                conversations * info.layers * (2 * info.state_bytes() + info.update_bytes())
            }
            Self::GatedNorm { .. } | Self::Swap => 0,
        }
    }
}

/// The bytes that a step has to move, at any position. They are needed for each token of an answer, so the operations
/// are summed only once.
#[derive(Clone, Debug)]
pub struct StepBytes {
    /// The bytes that do not depend on the position.
    fixed: u64,
    /// The bytes of a position in all layers, for each window.
    windows: Vec<(Attention, u64)>,
}

impl StepBytes {
    /// The bytes of a step with the rows of `tape`.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let mut windows: Vec<(Attention, u64)> = Vec::new();
        for op in &tape.ops {
            let Op::Attend {
                layer, attention, ..
            } = op
            else {
                continue;
            };
            let alike = |(other, _): &&mut (Attention, u64)| other.window == attention.window;
            let bytes = (tape.rows * position_bytes(tape, *layer)) as u64;
            match windows.iter_mut().find(alike) {
                Some((_, all)) => *all += bytes,
                None => windows.push((*attention, bytes)),
            }
        }
        let mut bytes = Self {
            fixed: tape.ops.iter().map(|op| op.bytes(tape, 0)).sum(),
            windows,
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
        let windows = self.windows.iter();
        windows.map(|(of, bytes)| bytes * seen(of)).sum()
    }
}
