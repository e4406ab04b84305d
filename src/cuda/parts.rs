//! Steps in parts. Each part is launched shortly before the previous one ends, so that a prompt can preempt the step.
//!
//! A preempted step launches its embeddings again when it resumes: tokens of other runs have used its sequence number.

use std::ops::Range;
use std::time::Instant;

use super::narrow::narrow;
use super::{Cuda, Launched};
use crate::device::Error;
use crate::executor::{Pass, PreemptStep, STEP_PLACE};
use crate::graph::Stepper as _;
use crate::tape::Tape;

impl Launched {
    /// Whether all of its parts have been launched.
    pub(super) const fn is_whole(&self) -> bool {
        self.next == self.end
    }

    const fn rest(&self) -> Range<usize> {
        self.next..self.end
    }

    /// The fraction of its operations that has been launched.
    pub(super) fn fraction(&self) -> f32 {
        f32::from(u16::try_from(self.next).unwrap_or(u16::MAX))
            / f32::from(u16::try_from(self.end.max(1)).unwrap_or(u16::MAX))
    }
}

impl Cuda {
    /// The step whose tokens are taken next, running or preempted.
    pub(super) fn ahead(&self) -> Option<&Launched> {
        self.pending.front().or(self.preempted_step.as_ref())
    }

    /// Whether a step has been launched in part only.
    pub(super) fn is_partial(&self) -> bool {
        self.preempted_step.is_some() || self.pending.iter().any(|step| !step.is_whole())
    }

    /// Launches the next part of a pending step.
    pub(super) fn launch_part(&mut self, tape: &Tape, at: usize) -> Result<(), Error> {
        let Some(step) = self.pending.get(at).copied() else {
            return Ok(());
        };
        let sequence = self.sequence.wrapping_add(narrow(at) + 1);
        let (mut cuda_step, graph, _) = self.split(tape);
        cuda_step.sequence = sequence;
        let rest = graph.run_part(&mut cuda_step, step.rest());
        let rest = rest.inspect_err(|_| self.lose(step.slots()))?;
        self.pending[at].next = rest.start;
        self.mark(at).inspect_err(|_| self.lose(step.slots()))
    }

    /// Launches the rest of the oldest step. If it can be preempted, each part is launched shortly before the previous one ends.
    pub(super) fn finish_step(
        &mut self,
        tape: &Tape,
        mut preempts: PreemptStep<'_>,
    ) -> Result<Pass, Error> {
        self.pace.arrives(Instant::now());
        while let Some(step) = self
            .pending
            .front()
            .copied()
            .filter(|step| !step.is_whole())
        {
            if let Some(preempts) = &mut preempts {
                let (due, begun) = (self.pace.due(step.count, step.fraction()), Instant::now());
                self.send_late(due)?;
                // The step is preempted as soon as a request arrives, which is prepared while this part runs.
                let before = due.and_then(|due| due.checked_sub(self.options.spin));
                let is_preempted = preempts(before.unwrap_or(begun));
                self.pace.waited += begun.elapsed();
                if is_preempted {
                    self.save_step(tape)?;
                    return Ok(Pass::Preempted);
                }
                self.wait_until(due)?;
                let late = self.ends[self.place(0)].is_past()?;
                self.pace.launched(late);
            }
            self.launch_part(tape, 0)?;
        }
        Ok(Pass::Ended)
    }

    /// Preempts the only pending step after its launched parts, and saves its carried buffers.
    pub(super) fn save_step(&mut self, tape: &Tape) -> Result<(), Error> {
        let Some(step) = self.pending.pop_front() else {
            return Ok(());
        };
        let saved = self
            .buffers
            .copy_carried(tape, (STEP_PLACE, false), &mut self.stream);
        saved.inspect_err(|_| self.lose(step.slots()))?;
        self.preempted_step = Some(step);
        Ok(())
    }

    /// Makes the preempted step pending, and launches its next part.
    pub(super) fn resume_step(&mut self, tape: &Tape) -> Result<(), Error> {
        let Some(step) = self.preempted_step.take() else {
            return Ok(());
        };
        self.started = None;
        let embedded = self.split(tape).0.eager(0..1);
        let resumed = embedded.and_then(|()| {
            self.buffers
                .copy_carried(tape, (STEP_PLACE, true), &mut self.stream)
        });
        resumed.inspect_err(|_| self.lose(step.slots()))?;
        self.pace
            .resumes(step.count, step.fraction(), Instant::now());
        self.pending.push_back(step);
        self.launch_part(tape, 0)
    }
}
