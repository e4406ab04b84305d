//! Where launches go: onto the stream, into a recording, or into a trace of what would be launched.

use crate::device::{Error, Geometry, Kernel, Parameters, Stream, Template};
use crate::graph::Trace;

/// Takes launches in their order.
#[derive(Debug)]
pub(super) struct Queue<'q> {
    to: To<'q>,
    operation: &'static str,
    /// Where the first operation notes its begin and end, if anyone asks.
    stamps: Option<u64>,
    stamp: u64,
}

#[derive(Debug)]
enum To<'q> {
    Stream(&'q mut Stream),
    Trace(&'q mut Trace),
    Recording(&'q mut Stream, &'q mut Trace),
    Template(&'q mut Template, &'q Trace, &'q mut Trace),
}

impl<'q> Queue<'q> {
    /// Words of one stamp: a begin and ends, in nanoseconds, of which the latest counts; `common.cuh`.
    pub(super) const STAMP_WORDS: usize = 2048;
    pub(super) const STAMP_BYTES: usize = 8 * Self::STAMP_WORDS;

    /// Launches.
    pub(super) fn launching(stream: &'q mut Stream, stamps: Option<u64>) -> Self {
        Self::to(To::Stream(stream), stamps)
    }

    /// Launches nothing.
    pub(super) fn tracing(trace: &'q mut Trace) -> Self {
        Self::to(To::Trace(trace), None)
    }

    /// Has launches recorded by a stream that is being captured, and noted.
    pub(super) fn recording(
        stream: &'q mut Stream,
        stamps: Option<u64>,
        trace: &'q mut Trace,
    ) -> Self {
        Self::to(To::Recording(stream, trace), stamps)
    }

    /// Sets those launches of a template that are not as they `were`, and notes what all of them are then.
    pub(super) fn rewriting(
        template: &'q mut Template,
        stamps: Option<u64>,
        were: &'q Trace,
        are: &'q mut Trace,
    ) -> Self {
        Self::to(To::Template(template, were, are), stamps)
    }

    fn to(to: To<'q>, stamps: Option<u64>) -> Self {
        Self {
            to,
            operation: "",
            stamps,
            stamp: 0,
        }
    }

    /// The operation that the next launches belong to.
    pub(super) fn begin(&mut self, index: usize, operation: &'static str) {
        self.operation = operation;
        let at = |base| base + (index * Self::STAMP_BYTES) as u64;
        self.stamp = self.stamps.map_or(0, at);
    }

    /// Where the operation's launches note begin and end; 0 for nowhere.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    pub(super) fn launch<A: Parameters>(
        &mut self,
        kernel: &Kernel<A>,
        geometry: Geometry,
        args: &A,
    ) -> Result<(), Error> {
        let operation = self.operation;
        let note = |trace: &mut Trace| {
            let Geometry {
                grid,
                block,
                shared,
            } = geometry;
            let sizes = grid.into_iter().chain(block).chain([shared]).map(u64::from);
            trace.launch(
                operation,
                [kernel.id()].into_iter().chain(sizes).chain(words(args)),
            );
        };
        // SAFETY, of both calls: every address is of an arena that `Cuda` owns and drops after its graphs and its
        // stream's work; shapes and bounds are those of a checked tape, and regions were planned for its rows.
        match &mut self.to {
            To::Stream(stream) => return unsafe { kernel.launch(stream, geometry, args) },
            To::Trace(trace) => note(trace),
            To::Recording(stream, trace) => {
                note(trace);
                return unsafe { kernel.launch(stream, geometry, args) };
            }
            To::Template(template, were, are) => {
                let index = are.launches();
                note(are);
                if !are.same_launch(were, index) {
                    return unsafe { template.set(index, kernel, geometry, args) };
                }
            }
        }
        Ok(())
    }
}

/// Parameters as numbers; their structs are of whole 4-byte words.
fn words<A: Parameters>(args: &A) -> impl Iterator<Item = u64> + '_ {
    let from = std::ptr::from_ref(args).cast::<u32>();
    // SAFETY: `Parameters` promises a struct of 4- and 8-byte numbers without padding, and it is borrowed here.
    let words = unsafe { std::slice::from_raw_parts(from, size_of::<A>() / 4) };
    words.iter().copied().map(u64::from)
}
