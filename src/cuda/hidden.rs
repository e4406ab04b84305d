//! Launches the operations on the hidden states that an assistant continues from.

use super::narrow::narrow;
use super::queue::LaunchQueue;
use super::work::{THREADS, Work};
use crate::device::{Error, Geometry, HiddenArgs};
use crate::tape::{Hidden, Input, Tape};

impl Work<'_> {
    /// Queues an operation on hidden states.
    pub(super) fn hidden(
        &self,
        tape: &Tape,
        op: Hidden,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let step = tape.input == Input::Step;
        let hidden = narrow(tape.buffer(op.ring()).columns);
        let args = HiddenArgs {
            places: self.places_of(step),
            ring: self.buffer(op.ring()),
            stamp: queue.stamp(),
            hidden,
            ..HiddenArgs::default()
        };
        // A prompt stores its last row alone.
        let keeps = matches!(op, Hidden::Keep { .. });
        let rows = if keeps && !step { 1 } else { tape.rows };
        let geometry = Geometry {
            grid: [hidden.div_ceil(THREADS), narrow(rows), 1],
            ..Geometry::new(1, THREADS)
        };
        match op {
            Hidden::Keep { input, .. } => {
                let args = HiddenArgs {
                    states: self.buffer(input),
                    ..args
                };
                queue.launch(&self.kernels.keep_hidden, geometry, &args)
            }
            Hidden::Join { x, before, out, .. } => {
                let args = HiddenArgs {
                    states: self.buffer(before),
                    x: self.buffer(x),
                    out: self.buffer(out),
                    ..args
                };
                queue.launch(&self.kernels.join_hidden, geometry, &args)
            }
        }
    }
}
