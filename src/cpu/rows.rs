//! The rows of a run, by conversation.

use std::ops::Range;

use super::recurrent::Group;
use crate::executor::{Given, StepState};
use crate::tape::Input;

/// Consecutive rows of one conversation.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) slot: usize,
    /// The state before the first row.
    pub(super) state: StepState,
    /// The position that the first row rotates by, if it is text.
    pub(super) turned: usize,
    pub(super) rows: Range<usize>,
    /// The token of a row that is not the first of its conversation in a step.
    pub(super) given: Option<Given>,
    /// Whether a token is chosen after it.
    pub(super) chooses: bool,
}

impl Run {
    /// The elements of these rows in a buffer with `columns`.
    pub(super) fn of(&self, columns: usize) -> Range<usize> {
        self.rows.start * columns..self.rows.end * columns
    }
}

/// Joins the runs of each conversation, whose rows are adjacent.
pub(super) fn groups(runs: &[Run], input: Input) -> Vec<Group> {
    let groups = runs.chunk_by(|run, next| run.slot == next.slot);
    let joined = groups.filter_map(|runs| {
        let (first, last) = (runs.first()?, runs.last()?);
        Some(Group {
            slot: first.slot,
            position: first.state.position,
            rows: first.rows.start..last.rows.end,
            prompt: input == Input::Prompt,
        })
    });
    joined.collect()
}
