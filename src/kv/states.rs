//! Checkpoints of recurrent states: when a running turn stores one, and which pages it takes.
//!
//! There may be fewer states than slots. A turn between two runs may lose its state to another slot: then the pages of the
//! turn hold a copy.

use super::checkpoint::{Checkpoint, END, StateStart};
use super::page::PAGE;
use super::prompt::Family;
use super::{Kv, Seat};

impl Kv {
    /// The next position of a slot at which a run of its prompt has to end, so that a checkpoint is stored there.
    #[must_use]
    pub fn next_checkpoint(&self, slot: usize) -> Option<usize> {
        let sequence = self.at(slot).filter(|_| self.layout.state > 0)?;
        let unfilled = sequence.checkpoints.iter().filter(|one| !one.filled);
        let positions = unfilled.map(|one| one.position).filter(|at| *at != END);
        positions.filter(|at| *at > sequence.tokens.len()).min()
    }

    /// The pages for the state of a slot after its tokens, if a checkpoint is due there.
    #[must_use]
    pub fn due_pieces(&self, slot: usize) -> Option<&[usize]> {
        let sequence = self.at(slot)?;
        let mut all = sequence.checkpoints.iter().filter(|one| !one.filled);
        let due = all.find(|one| one.position == sequence.tokens.len())?;
        Some(&due.pieces)
            .filter(|pieces| !pieces.is_empty())
            .map(Vec::as_slice)
    }

    /// The pages for the state at the end of the turn in a slot, unless a checkpoint has it. Within a chunk of a prompt
    /// there are none: a longer prompt would compute other bits there.
    #[must_use]
    pub fn end_pieces(&self, slot: usize) -> Option<&[usize]> {
        let sequence = self.at(slot)?;
        let all = || sequence.checkpoints.iter();
        let is_stored = |one: &Checkpoint| one.filled && one.position == sequence.tokens.len();
        let end = all().find(|one| one.position == END)?;
        let is_answer = matches!(sequence.tokens.last(), Some((_, Family::Step)));
        let is_between = is_answer || sequence.tokens.len().is_multiple_of(PAGE);
        (is_between && !all().any(is_stored)).then_some(&end.pieces)
    }

    /// Whether no turn in a slot will run again, and no step in flight needs its state.
    #[must_use]
    pub fn is_idle(&self, slot: usize) -> bool {
        let has_turn = |seat: &Seat| {
            let begun = seat
                .sequence
                .is_some_and(|id| self.sequences.contains_key(&id));
            seat.keeps_pages() || begun && !seat.ended
        };
        !self.slots.get(slot).is_some_and(has_turn)
    }

    /// Whether a step in flight may need the state of a slot.
    #[must_use]
    pub fn is_in_flight(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|seat| seat.launched)
    }

    /// Where a slot can get its state after `position` tokens from: `None` if no checkpoint has it.
    #[must_use]
    pub fn state_after(&self, slot: usize, position: usize) -> Option<StateStart> {
        if position == 0 {
            return Some(StateStart::Empty);
        }
        let mut all = self.at(slot)?.checkpoints.iter();
        let at = all.find(|one| one.filled && one.position == position)?;
        Some(StateStart::Pieces(at.pieces.clone()))
    }

    /// The pages for the state at the end of the turn in a slot. Before that end, they hold the state of a turn that has
    /// lost its own, and a stored state that is restored (`page_at`).
    #[must_use]
    pub fn pieces_of_turn(&self, slot: usize) -> &[usize] {
        let mut all = self.at(slot).into_iter().flat_map(|one| &one.checkpoints);
        let end = all.find(|one| one.position == END);
        end.map_or(&[], |end| &end.pieces)
    }

    /// Notes that the pages of `due_pieces` hold the state.
    pub fn checkpointed(&mut self, slot: usize) {
        if let Some(sequence) = self.at_mut(slot) {
            let tokens = sequence.tokens.len();
            let mut all = sequence.checkpoints.iter_mut();
            if let Some(due) = all.find(|one| one.position == tokens) {
                due.filled = true;
            }
        }
    }

    /// Notes that the pages of `end_pieces` hold the state after the tokens of a slot.
    pub fn ended(&mut self, slot: usize) {
        if let Some(sequence) = self.at_mut(slot) {
            let tokens = sequence.tokens.len();
            let mut all = sequence.checkpoints.iter_mut();
            if let Some(end) = all.find(|one| one.position == END) {
                (end.position, end.filled) = (tokens, true);
            }
            sequence.checkpoints.sort_by_key(|one| one.position);
        }
    }

    /// The end of the longest run of a slot's prompt: at most `most` of the `left` tokens before the next token that a step
    /// computes. Runs of recurrent layers end at multiples of 64 positions, at checkpoints, or where the tokens end.
    #[must_use]
    pub fn run_length(&self, slot: usize, left: usize, most: usize) -> usize {
        let length = left.min(most);
        if self.layout.state == 0 {
            return length;
        }
        let begin = self.len_of(slot);
        let checkpoint = self
            .next_checkpoint(slot)
            .map_or(usize::MAX, |at| at - begin);
        if checkpoint <= length {
            return checkpoint;
        }
        if length == left {
            return length;
        }
        let end = (begin + length) / PAGE * PAGE;
        if end > begin {
            return end - begin;
        }
        // A chunk is not divided, even if it takes longer.
        (PAGE - begin % PAGE).min(left)
    }
}
