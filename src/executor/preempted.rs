//! Prompts that were preempted between two half layers, and a step that was preempted between two parts.
//!
//! Only the buffers that all layers read have to be saved (`Tape::carried`): finished layers have written to the cache, or
//! to a spare state. This module does not know where these buffers are saved.

use std::time::Instant;

use crate::tape::Ending;

/// Prompts that can be preempted at the same time. Each needs memory for the carried buffers of the longest prompt slice.
pub const PREEMPTED: usize = 2;

/// The place that saves the carried buffers of a preempted step, next to those of prompts and as large.
pub const STEP_PLACE: usize = PREEMPTED;
pub const PLACES: usize = PREEMPTED + 1;

/// How a run of a prompt or a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Ended,
    /// The next run of the same rows continues it.
    Preempted,
}

/// Decides between two half layers whether to preempt a prompt, and before a step is launched ahead whether not to launch it.
pub type PreemptPrompt<'a> = Option<&'a mut dyn FnMut() -> bool>;

/// Decides between two parts of a step whether to preempt it. It may wait for an arriving request, but not longer than until
/// the given time.
pub type PreemptStep<'a> = Option<&'a mut dyn FnMut(Instant) -> bool>;

/// The rows of a prompt run. Only a run with equal rows continues a preempted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRows {
    pub slot: usize,
    pub position: usize,
    pub tokens: Vec<u32>,
    pub ending: Ending,
}

/// The preempted prompts. The index of each is the place of its carried buffers.
#[derive(Debug, Default)]
pub struct Preempted([Option<(PromptRows, usize)>; PREEMPTED]);

impl Preempted {
    /// Removes a prompt. Returns its place and its first operation that has not run.
    pub fn take(&mut self, rows: &PromptRows) -> Option<(usize, usize)> {
        let is_it = |prompt: &Option<(PromptRows, usize)>| {
            prompt.as_ref().is_some_and(|(of, _)| of == rows)
        };
        let place = self.0.iter().position(is_it)?;
        let (_, next) = self.0[place].take()?;
        Some((place, next))
    }

    /// A free place.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.0.iter().position(Option::is_none)
    }

    /// Adds a prompt in a free place; `next` is its first operation that has not run.
    pub fn keep(&mut self, place: usize, rows: PromptRows, next: usize) {
        self.0[place] = Some((rows, next));
    }

    /// Whether a prompt of a slot is preempted.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        (self.0.iter().flatten()).any(|(rows, _)| rows.slot == slot)
    }

    /// Removes the prompts of a slot.
    pub fn discard(&mut self, slot: usize) {
        for prompt in &mut self.0 {
            prompt.take_if(|(rows, _)| rows.slot == slot);
        }
    }
}
