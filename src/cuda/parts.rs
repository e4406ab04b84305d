//! Steps in parts: each is launched shortly before the one before it ends, so that a step can be left between two, for a prompt
//! that does not wait, and gone on with after that.
//!
//! What is left keeps its place among the steps by being launched once more at its head: the tokens that came meanwhile have taken
//! its number.

use std::ops::Range;
use std::time::Instant;

use super::{Cuda, Error, Launched, narrow};
use crate::executor::{Leaves, Pass, STEP_PLACE};
use crate::graph::Stepper as _;
use crate::tape::Tape;

impl Launched {
    /// Whether nothing of it is left to be launched.
    pub(super) const fn is_whole(&self) -> bool {
        self.next == self.end
    }

    const fn left(&self) -> Range<usize> {
        self.next..self.end
    }

    /// How much of it was launched.
    pub(super) fn fraction(&self) -> f32 {
        f32::from(u16::try_from(self.next).unwrap_or(u16::MAX))
            / f32::from(u16::try_from(self.end.max(1)).unwrap_or(u16::MAX))
    }
}

impl Cuda {
    /// The step whose tokens are taken next, whether it runs or is left.
    pub(super) fn ahead(&self) -> Option<&Launched> {
        self.pending.front().or(self.left.as_ref())
    }

    /// Whether some of a step is launched, and some is not.
    pub(super) fn is_partial(&self) -> bool {
        self.left.is_some() || self.pending.iter().any(|step| !step.is_whole())
    }

    /// Launches another part of a step that is pending.
    pub(super) fn launch_part(&mut self, tape: &Tape, at: usize) -> Result<(), Error> {
        let Some(step) = self.pending.get(at).copied() else {
            return Ok(());
        };
        let sequence = self.sequence.wrapping_add(narrow(at) + 1);
        let (mut cuda_step, graph, _) = self.split(tape);
        cuda_step.sequence = sequence;
        let left = graph.go_on(&mut cuda_step, step.left());
        let left = left.inspect_err(|_| self.lose(step.entries()))?;
        self.pending[at].next = left.start;
        self.mark(at).inspect_err(|_| self.lose(step.entries()))
    }

    /// Launches what is left of the oldest step. Where it may be left, no part is launched much before the one before has ended.
    pub(super) fn go_on(&mut self, tape: &Tape, mut leaves: Leaves<'_>) -> Result<Pass, Error> {
        self.pace.arrives(Instant::now());
        while let Some(step) = self
            .pending
            .front()
            .copied()
            .filter(|step| !step.is_whole())
        {
            if let Some(leaves) = &mut leaves {
                let (due, begun) = (self.pace.due(step.count, step.fraction()), Instant::now());
                self.send_late(due)?;
                // It is left as soon as it is known for whom, who gets ready beside what runs of it.
                let before = due.and_then(|due| due.checked_sub(self.options.spin));
                let is_left = leaves(before.unwrap_or(begun));
                self.pace.waited += begun.elapsed();
                if is_left {
                    self.leave(tape)?;
                    return Ok(Pass::Preempted);
                }
                self.wait_until(due)?;
                // The mark moves with each part.
                let late = self.ends[self.place(0)].is_past()?;
                self.pace.launched(late);
            }
            self.launch_part(tape, 0)?;
        }
        Ok(Pass::Ended)
    }

    /// Leaves the only step that is pending behind the parts of it that were launched.
    pub(super) fn leave(&mut self, tape: &Tape) -> Result<(), Error> {
        let Some(step) = self.pending.pop_front() else {
            return Ok(());
        };
        let kept = self
            .buffers
            .copy_residual(tape, (STEP_PLACE, false), &mut self.stream);
        kept.inspect_err(|_| self.lose(step.entries()))?;
        self.left = Some(step);
        Ok(())
    }

    /// Has the step that was left be the one that is pending, and launches its next part.
    pub(super) fn resume_step(&mut self, tape: &Tape) -> Result<(), Error> {
        let Some(step) = self.left.take() else {
            return Ok(());
        };
        self.started = None;
        let embedded = self.split(tape).0.eager(0..1);
        let resumed = embedded.and_then(|()| {
            self.buffers
                .copy_residual(tape, (STEP_PLACE, true), &mut self.stream)
        });
        resumed.inspect_err(|_| self.lose(step.entries()))?;
        self.pace
            .resumes(step.count, step.fraction(), Instant::now());
        self.pending.push_back(step);
        self.launch_part(tape, 0)
    }
}
