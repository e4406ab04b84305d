//! The hidden states that an assistant continues from: they are stored in a ring by position, and joined with embeddings.

use super::rows::Run;
use crate::tape::{Hidden, Tape};

/// Runs an operation on the hidden states of conversations.
pub(super) fn execute(op: Hidden, tape: &Tape, runs: &[Run], activations: &mut [Vec<f32>]) {
    let hidden = tape.buffer(op.ring()).columns;
    let row = |index: usize| index * hidden..(index + 1) * hidden;
    match op {
        Hidden::Keep { input, ring } => {
            let mut kept = std::mem::take(&mut activations[ring.0]);
            for run in runs.iter().filter(|run| !run.rows.is_empty()) {
                let position = run.state.position + run.rows.len() - 1;
                let from = &activations[input.0][row(run.rows.end - 1)];
                kept[row(Hidden::place(run.slot, position))].copy_from_slice(from);
            }
            activations[ring.0] = kept;
        }
        Hidden::Join {
            x,
            before,
            ring,
            out,
        } => {
            let mut joined = std::mem::take(&mut activations[out.0]);
            for (index, run) in runs.iter().enumerate() {
                let at = run.rows.start;
                let is_later = index > 0 && runs[index - 1].slot == run.slot;
                let state = if is_later {
                    &activations[before.0][row(at - 1)]
                } else {
                    let place = Hidden::place(run.slot, run.state.position);
                    &activations[ring.0][row(place)]
                };
                let (to_x, to_state) = joined[2 * at * hidden..][..2 * hidden].split_at_mut(hidden);
                to_x.copy_from_slice(&activations[x.0][row(at)]);
                to_state.copy_from_slice(state);
            }
            activations[out.0] = joined;
        }
    }
}
