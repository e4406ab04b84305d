//! A tape in the form that the decode graph expects: it can be run, recorded and replayed.
//!
//! A recording is the list of operations with their slot and addresses, and a replay runs with these, as on a GPU. The
//! life cycle of the decode graph can therefore be tested without one.

use std::ops::Range;

use super::core::Core;
use crate::executor::ExecuteError;
use crate::fault::{Call, Faults, How};
use crate::graph::{Renewal, Stepper, Trace};
use crate::tape::{Input, Op, Tape};

/// One run of a tape.
#[derive(Debug)]
pub(super) struct CpuStep<'a> {
    pub(super) core: &'a mut Core,
    pub(super) tape: &'a Tape,
    pub(super) layout: u64,
    pub(super) faults: &'a Faults,
    pub(super) part_bytes: u64,
    /// Tokens chosen before this run.
    pub(super) chosen: u64,
    /// Whether operations are being recorded.
    pub(super) capturing: bool,
}

/// The slot that a recording depends on. Rows of several slots find their own, as on a GPU.
pub(super) fn slot(core: &Core, tape: &Tape) -> usize {
    if tape.input == Input::Step && tape.rows > 1 {
        0
    } else {
        core.slot
    }
}

/// An executable graph and its template.
#[derive(Debug)]
pub(super) struct Living {
    /// `None` if it is unknown, for example after a refusal.
    template: Option<Recorded>,
    exec: Recorded,
}

impl Living {
    pub(super) fn dot(&self, index: usize) -> String {
        self.exec.dot(index)
    }
}

/// Operations with the slot and the addresses of their recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    operations: Range<usize>,
    slot: usize,
    addresses: Vec<u64>,
}

impl Recorded {
    /// Writes a chain of operations, numbered as in the tape, in DOT.
    fn dot(&self, index: usize) -> String {
        let chain: Vec<String> = self.operations.clone().map(|op| op.to_string()).collect();
        format!("digraph segment_{index} {{ {} }}\n", chain.join(" -> "))
    }
}

impl CpuStep<'_> {
    /// Makes a call, or fails as a test has requested.
    fn attempt<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, ExecuteError>,
    ) -> Result<T, ExecuteError> {
        let refused = |lost| ExecuteError::Refused { call, lost };
        match self.faults.strike(call) {
            Some(How::Before) => Err(refused(false)),
            Some(How::Lost) => Err(refused(true)),
            Some(How::After) => make(self).and(Err(refused(false))),
            // There is nothing to wait for, but a capture fails on it.
            Some(How::Synchronize) if self.capturing => Err(refused(false)),
            None | Some(How::Synchronize) => make(self),
        }
    }

    fn capture(&mut self, operations: Range<usize>) -> Result<(), ExecuteError> {
        self.attempt(Call::BeginCapture, |step| {
            step.capturing = true;
            Ok(())
        })?;
        for _ in operations {
            self.attempt(Call::Launch, |_| Ok(()))?;
        }
        self.attempt(Call::EndCapture, |_| Ok(()))
    }

    /// The result of recording these operations.
    fn recorded(&self, operations: Range<usize>) -> Recorded {
        Recorded {
            operations,
            slot: slot(self.core, self.tape),
            addresses: self.core.addresses().collect(),
        }
    }

    /// Makes a call for each operation that differs from the template, or for all if the template is unknown.
    fn rewrite(&mut self, was: Option<&Recorded>, is: &Recorded) -> Result<(), ExecuteError> {
        let same = was.is_some_and(|was| was.addresses == is.addresses);
        let same_slot = was.is_some_and(|was| was.slot == is.slot);
        for index in is.operations.clone() {
            let op = &self.tape.ops[index];
            let of_the_cache = matches!(
                op,
                Op::RopeStore { .. } | Op::Attend { .. } | Op::Recurrent(_)
            );
            if !same || (of_the_cache && !same_slot) {
                self.attempt(Call::SetKernel, |_| Ok(()))?;
            }
        }
        Ok(())
    }
}

impl Stepper for CpuStep<'_> {
    type Recording = Recorded;
    type Exec = Living;
    type Error = ExecuteError;

    fn operations(&self) -> usize {
        self.tape.ops.len()
    }

    fn rows(&self) -> usize {
        self.tape.rows
    }

    fn guesses(&self) -> bool {
        self.tape.guesses()
    }

    fn is_break(&self, operation: usize) -> bool {
        matches!(self.tape.ops[operation], Op::Attend { .. })
    }

    fn cuts(&self) -> Vec<usize> {
        self.tape.cuts(self.part_bytes)
    }

    fn layout(&self) -> u64 {
        self.layout
    }

    fn trace(&mut self) -> Trace {
        let mut trace = Trace::default();
        for (info, address) in self.tape.buffers.iter().zip(self.core.addresses()) {
            trace.place(info.name, address);
        }
        trace.place("kv", slot(self.core, self.tape) as u64);
        for op in &self.tape.ops {
            trace.launch(op.name(), [self.tape.rows as u64]);
        }
        trace
    }

    fn eager(&mut self, operations: Range<usize>) -> Result<(), ExecuteError> {
        let slot = self.core.slot;
        operations.into_iter().try_for_each(|index| {
            self.attempt(Call::Launch, |step| {
                step.core.run(step.tape, index..index + 1, slot)
            })
        })
    }

    fn record(&mut self, operations: Range<usize>) -> Result<Recorded, ExecuteError> {
        let captured = self.capture(operations.clone());
        self.capturing = false;
        captured?;
        Ok(self.recorded(operations))
    }

    fn nodes(living: &Living) -> usize {
        living.exec.operations.len()
    }

    fn instantiate(&mut self, recording: Recorded) -> Result<Living, ExecuteError> {
        self.attempt(Call::Instantiate, |_| Ok(()))?;
        self.attempt(Call::Upload, |_| Ok(()))?;
        Ok(Living {
            template: Some(recording.clone()),
            exec: recording,
        })
    }

    fn renew(
        &mut self,
        living: &mut Living,
        operations: Range<usize>,
    ) -> Result<Renewal, ExecuteError> {
        let was = living.template.take();
        let is = self.recorded(operations.clone());
        let template = match self.rewrite(was.as_ref(), &is) {
            Ok(()) => is,
            Err(error) if Self::is_refusal(&error) => self.record(operations)?,
            Err(error) => return Err(error),
        };
        living.template = Some(template.clone());
        let renewal = match self.attempt(Call::Update, |_| Ok(())) {
            Ok(()) => Renewal::Updated,
            Err(error) if Self::is_refusal(&error) => {
                self.attempt(Call::Instantiate, |_| Ok(()))?;
                Renewal::Instantiated
            }
            Err(error) => return Err(error),
        };
        living.exec = template;
        self.attempt(Call::Upload, |_| Ok(()))?;
        Ok(renewal)
    }

    fn launch(&mut self, living: &mut Living) -> Result<(), ExecuteError> {
        let exec = &living.exec;
        self.attempt(Call::GraphLaunch, |step| {
            // A GPU would use the old addresses.
            if !step.core.addresses().eq(exec.addresses.iter().copied()) {
                return Err(ExecuteError::Stale);
            }
            step.core.run(step.tape, exec.operations.clone(), exec.slot)
        })
    }

    fn free_memory(&self) -> u64 {
        0
    }

    fn settle(&mut self) -> Result<bool, ExecuteError> {
        Ok(self.core.chosen > self.chosen)
    }

    fn is_refusal(error: &ExecuteError) -> bool {
        matches!(error, ExecuteError::Refused { lost: false, .. })
    }
}
