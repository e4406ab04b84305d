//! What the board means for the engine thread: fewer rows on a hot board, and the energy of the requests that it works on.
//!
//! It reads no sensor: another thread does.

use std::time::Instant;

use super::state::Worker;

impl Worker<'_> {
    /// Returns the most rows of a step at this moment. Generations beyond them keep their slots, and wait.
    pub(super) fn step_rows(&self) -> usize {
        let limit = self.shared.board.row_limit().unwrap_or(usize::MAX);
        self.runner.rows().min(limit)
    }

    /// Begins to count energy: before this the thread had nothing to do.
    pub(super) fn mark_energy(&mut self) {
        self.energy = self.shared.board.energy.mark(Instant::now());
    }

    /// Gives the generations in `slots` equal shares of the energy since it was given last.
    pub(super) fn share_energy(&mut self, slots: &[usize]) {
        let meter = &self.shared.board.energy;
        let Some(joules) = meter.since(&mut self.energy, Instant::now()) else {
            return;
        };
        #[allow(clippy::cast_precision_loss)] // rows are few
        let share = joules / slots.len().max(1) as f64;
        for slot in slots {
            if let Some(generation) = self.slots.get_mut(*slot) {
                generation.add_energy(Some(share));
            }
        }
    }
}
