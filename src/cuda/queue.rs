//! The destination of launches: the stream, a recording, a trace, or a list of names.

use super::timestamps::TimestampAddresses;
use crate::device::{Error, Geometry, Kernel, Parameters, Stream, Template};
use crate::graph::Trace;

/// Receives launches in order.
#[derive(Debug)]
pub(super) struct LaunchQueue<'q> {
    to: To<'q>,
    operation: &'static str,
    /// The timestamps of operations, if they are measured.
    timestamps: Option<TimestampAddresses>,
    stamp: u64,
    /// Whether a launch may start while the one before it ends.
    early: bool,
}

#[derive(Debug)]
enum To<'q> {
    Stream(&'q mut Stream),
    Trace(&'q mut Trace),
    Names(&'q mut Vec<(&'static str, String)>),
    Recording(&'q mut Stream, &'q mut Trace),
    Template(&'q mut Template, &'q Trace, &'q mut Trace),
}

impl<'q> LaunchQueue<'q> {
    /// Runs launches.
    pub(super) fn launching(
        stream: &'q mut Stream,
        timestamps: Option<TimestampAddresses>,
    ) -> Self {
        Self::to(To::Stream(stream), timestamps)
    }

    /// Adds launches to a trace without running them.
    pub(super) fn tracing(trace: &'q mut Trace) -> Self {
        Self::to(To::Trace(trace), None)
    }

    /// Lists the operation and the kernel of each launch without running it.
    pub(super) fn naming(names: &'q mut Vec<(&'static str, String)>) -> Self {
        Self::to(To::Names(names), None)
    }

    /// Records launches on a stream during a capture, and adds them to a trace.
    pub(super) fn recording(
        stream: &'q mut Stream,
        timestamps: Option<TimestampAddresses>,
        trace: &'q mut Trace,
    ) -> Self {
        Self::to(To::Recording(stream, trace), timestamps)
    }

    /// Changes those launches of a template that differ from the old trace, and adds all launches to the new one.
    pub(super) fn rewriting(
        template: &'q mut Template,
        timestamps: Option<TimestampAddresses>,
        were: &'q Trace,
        are: &'q mut Trace,
    ) -> Self {
        Self::to(To::Template(template, were, are), timestamps)
    }

    fn to(to: To<'q>, timestamps: Option<TimestampAddresses>) -> Self {
        Self {
            to,
            operation: "",
            timestamps,
            stamp: 0,
            early: false,
        }
    }

    /// Sets whether the next launches may start while the ones before them end.
    pub(super) fn set_early(&mut self, early: bool) {
        self.early = early;
    }

    /// Sets the operation of the next launches.
    pub(super) fn begin(&mut self, index: usize, operation: &'static str) {
        self.operation = operation;
        self.stamp = self.timestamps.map_or(0, |timestamps| timestamps.of(index));
    }

    /// The address for the operation's timestamps; 0 if there are none.
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
        let stream = match &mut self.to {
            To::Stream(stream) => stream,
            To::Trace(trace) => {
                note(trace);
                return Ok(());
            }
            To::Names(names) => {
                names.push((operation, kernel.name().into()));
                return Ok(());
            }
            To::Recording(stream, trace) => {
                note(trace);
                stream
            }
            To::Template(template, were, are) => {
                let index = are.launches();
                note(are);
                if are.same_launch(were, index) {
                    return Ok(());
                }
                // SAFETY: as below.
                return unsafe { template.set(index, kernel, geometry, args) };
            }
        };
        // SAFETY: every address is in an arena that `Cuda` owns and drops after its graphs and its stream's work.
        // Shapes and bounds are those of a checked tape, and regions were planned for its rows.
        unsafe { kernel.launch(stream, (geometry, self.early), args) }
    }
}

/// The parameters as numbers; their structs consist of 4-byte words.
fn words<A: Parameters>(args: &A) -> impl Iterator<Item = u64> + '_ {
    let from = std::ptr::from_ref(args).cast::<u32>();
    // SAFETY: `Parameters` requires a struct of 4- and 8-byte numbers without padding, and it is borrowed here.
    let words = unsafe { std::slice::from_raw_parts(from, size_of::<A>() / 4) };
    words.iter().copied().map(u64::from)
}
