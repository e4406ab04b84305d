//! A tape in the form that the decode graph expects: it can be launched, recorded and replayed.

use std::ops::Range;

use super::queue::LaunchQueue;
use super::timestamps::TimestampAddresses;
use super::work::Work;
use crate::device::{Captured, Error, Stream, TokenMailbox};
use crate::graph::{Graph, Recording, Renewal, Stepper, Trace};
use crate::tape::{Op, Tape};

/// One run of a tape on a stream.
#[derive(Debug)]
pub(super) struct CudaStep<'a> {
    pub(super) work: Work<'a>,
    pub(super) stream: &'a mut Stream,
    pub(super) tape: &'a Tape,
    pub(super) layout: u64,
    /// The timestamps of operations, if they are measured.
    pub(super) timestamps: Option<TimestampAddresses>,
    pub(super) part_bytes: u64,
    pub(super) mailbox: &'a TokenMailbox,
    /// The number of the step or prompt.
    pub(super) sequence: u32,
}

impl Stepper for CudaStep<'_> {
    type Recording = (Captured, Trace);
    type Exec = Graph;
    type Error = Error;

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
        self.work.places(self.tape, &mut trace);
        let mut queue = LaunchQueue::tracing(&mut trace);
        // Tracing launches nothing, so it cannot be refused.
        let _ = self.work.run(self.tape, 0..self.operations(), &mut queue);
        trace
    }

    fn eager(&mut self, operations: Range<usize>) -> Result<(), Error> {
        let mut queue = LaunchQueue::launching(self.stream, self.timestamps);
        self.work.run(self.tape, operations, &mut queue)
    }

    fn record(&mut self, operations: Range<usize>) -> Result<(Captured, Trace), Error> {
        let (work, tape, timestamps) = (self.work, self.tape, self.timestamps);
        let mut trace = Trace::default();
        let captured = Recording::begin(self.stream)?.record(|stream| {
            let mut queue = LaunchQueue::recording(stream, timestamps, &mut trace);
            work.run(tape, operations, &mut queue)
        })?;
        Ok((captured, trace))
    }

    fn nodes(exec: &Graph) -> usize {
        exec.nodes()
    }

    fn instantiate(&mut self, (captured, trace): (Captured, Trace)) -> Result<Graph, Error> {
        Graph::new(captured, trace, self.stream)
    }

    /// Changes only the launches that differ, usually none for another turn. That is much faster than recording all of
    /// them, and gives the same template.
    fn renew(&mut self, exec: &mut Graph, operations: Range<usize>) -> Result<Renewal, Error> {
        let (work, tape, timestamps) = (self.work, self.tape, self.timestamps);
        let rewritten = exec.rewrite(|template, were, are| {
            let mut queue = LaunchQueue::rewriting(template, timestamps, were, are);
            work.run(tape, operations.clone(), &mut queue)
        })?;
        if !rewritten {
            let (captured, trace) = self.record(operations)?;
            exec.replace(captured, trace)?;
        }
        exec.renew(self.stream)
    }

    fn launch(&mut self, exec: &mut Graph) -> Result<(), Error> {
        exec.launch(self.stream)
    }

    fn free_memory(&self) -> u64 {
        self.stream.context().free_memory().unwrap_or(0)
    }

    fn settle(&mut self) -> Result<bool, Error> {
        self.stream.synchronize()?;
        Ok(self.mailbox.peek(self.sequence, 0).is_some())
    }

    fn is_refusal(error: &Error) -> bool {
        let refused = matches!(
            error,
            Error::Driver { .. } | Error::NoMemory { .. } | Error::NotAKernel(_)
        );
        refused && !error.is_sticky()
    }

    fn driver_error(error: &Error) -> Option<&str> {
        error.driver_error()
    }
}
