//! A tape as the decode graph sees it: run, "recorded", replayed.
//!
//! A recording is the list of operations with the region and the addresses that they had then, and a replay runs
//! that, as a GPU would: so the life cycle of the decode graph is tested without one.

use std::ops::Range;

use super::core::Core;
use crate::fault::{Call, Faults, How};
use crate::graph::{Renewal, Stepper, Trace};
use crate::tape::{ExecuteError, Op, Tape};

/// One run of a tape.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) core: &'a mut Core,
    pub(super) tape: &'a Tape,
    pub(super) layout: u64,
    pub(super) faults: &'a Faults,
    /// Tokens chosen before it.
    pub(super) chosen: u64,
}

/// Operations with all that they were recorded against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    operations: Range<usize>,
    region: usize,
    addresses: Vec<u64>,
}

impl Recorded {
    /// As a chain of operations, by their places in the tape.
    pub(super) fn dot(&self, index: usize) -> String {
        let chain: Vec<String> = self.operations.clone().map(|op| op.to_string()).collect();
        format!("digraph segment_{index} {{ {} }}\n", chain.join(" -> "))
    }
}

impl Step<'_> {
    /// Makes a call, or fails as a test has asked for.
    fn attempt<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, ExecuteError>,
    ) -> Result<T, ExecuteError> {
        let refused = |lost| ExecuteError::Refused { call, lost };
        match self.faults.strike(call) {
            None => make(self),
            Some(How::Before) => Err(refused(false)),
            Some(How::Lost) => Err(refused(true)),
            Some(How::After) => make(self).and(Err(refused(false))),
            // Nothing runs here that could be waited for; a capture would be lost by it.
            Some(How::Synchronize) => match call {
                Call::Launch | Call::EndCapture => Err(refused(false)),
                _ => make(self),
            },
        }
    }
}

impl Stepper for Step<'_> {
    type Recording = Recorded;
    type Exec = Recorded;
    type Error = ExecuteError;

    fn operations(&self) -> usize {
        self.tape.ops.len()
    }

    fn is_break(&self, operation: usize) -> bool {
        matches!(self.tape.ops[operation], Op::Attend { .. })
    }

    fn layout(&self) -> u64 {
        self.layout
    }

    fn trace(&mut self) -> Trace {
        let mut trace = Trace::default();
        for (info, address) in self.tape.slots.iter().zip(self.core.addresses()) {
            trace.place(info.name, address);
        }
        trace.place("kv", self.core.region as u64);
        for op in &self.tape.ops {
            trace.launch(op.name(), [self.tape.rows as u64]);
        }
        trace
    }

    fn eager(&mut self, operations: Range<usize>) -> Result<(), ExecuteError> {
        let region = self.core.region;
        operations.into_iter().try_for_each(|index| {
            self.attempt(Call::Launch, |step| {
                step.core.run(step.tape, index..index + 1, region)
            })
        })
    }

    fn record(&mut self, operations: Range<usize>) -> Result<Recorded, ExecuteError> {
        self.attempt(Call::BeginCapture, |_| Ok(()))?;
        for _ in operations.clone() {
            self.attempt(Call::Launch, |_| Ok(()))?;
        }
        self.attempt(Call::EndCapture, |_| Ok(()))?;
        Ok(Recorded {
            operations,
            region: self.core.region,
            addresses: self.core.addresses().collect(),
        })
    }

    fn nodes(exec: &Recorded) -> usize {
        exec.operations.len()
    }

    fn instantiate(&mut self, recording: Recorded) -> Result<Recorded, ExecuteError> {
        self.attempt(Call::Instantiate, |_| Ok(()))?;
        self.attempt(Call::Upload, |_| Ok(()))?;
        Ok(recording)
    }

    fn renew(&mut self, exec: &mut Recorded, recording: Recorded) -> Result<Renewal, ExecuteError> {
        self.attempt(Call::Update, |_| {
            *exec = recording;
            Ok(())
        })?;
        self.attempt(Call::Upload, |_| Ok(()))?;
        Ok(Renewal::Updated)
    }

    fn launch(&mut self, exec: &mut Recorded) -> Result<(), ExecuteError> {
        self.attempt(Call::GraphLaunch, |step| {
            // A GPU would compute on what was there before.
            if !step.core.addresses().eq(exec.addresses.iter().copied()) {
                return Err(ExecuteError::Stale);
            }
            step.core
                .run(step.tape, exec.operations.clone(), exec.region)
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
