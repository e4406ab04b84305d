//! Prompts that were left between two half layers, and a step between two parts, and what is needed to go on with them: nothing but
//! the residual stream, for what their layers have written to the cache stays there. It knows not where that lies.

use std::time::Instant;

use crate::tape::Ending;

/// So many may be left at once: each takes as much memory as the residual stream of the most rows of a prompt.
pub const PREEMPTED: usize = 2;

/// Where the residual stream of a step is kept that was left: beside those of prompts, and as long.
pub const STEP_PLACE: usize = PREEMPTED;
pub const PLACES: usize = PREEMPTED + 1;

/// What became of a prompt or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It has run to its end.
    Ended,
    /// It was left, and goes on where it was when the same is run again.
    Preempted,
}

/// Asked between two half layers whether a prompt is to be left there, and before a step is launched ahead whether it is not to be.
pub type Preempts<'a> = Option<&'a mut dyn FnMut() -> bool>;

/// Asked between two parts of a step whether it is to be left there: it waits for whoever it would be left for, but no longer than
/// until then.
pub type Leaves<'a> = Option<&'a mut dyn FnMut(Instant) -> bool>;

/// What a prompt runs: what is left goes on only as the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    pub entry: usize,
    pub position: usize,
    pub tokens: Vec<u32>,
    pub ending: Ending,
}

/// The prompts that were left, each with a place for its residual stream.
#[derive(Debug, Default)]
pub struct Preempted([Option<(Rows, usize)>; PREEMPTED]);

impl Preempted {
    /// The place of one that was left, and its first operation that has not run; it counts as left no more.
    pub fn take(&mut self, rows: &Rows) -> Option<(usize, usize)> {
        let is_it = |left: &Option<(Rows, usize)>| left.as_ref().is_some_and(|(of, _)| of == rows);
        let place = self.0.iter().position(is_it)?;
        let (_, next) = self.0[place].take()?;
        Some((place, next))
    }

    /// Where another could be kept.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.0.iter().position(Option::is_none)
    }

    /// It is kept in a place that was free, before an operation.
    pub fn keep(&mut self, place: usize, rows: Rows, next: usize) {
        self.0[place] = Some((rows, next));
    }

    /// Whatever ran in an entry goes on no more.
    pub fn forget(&mut self, entry: usize) {
        let of =
            |left: &Option<(Rows, usize)>| left.as_ref().is_some_and(|(of, _)| of.entry == entry);
        self.0
            .iter_mut()
            .filter(|left| of(left))
            .for_each(|left| *left = None);
    }
}
