//! Where launches go: onto the stream, into a recording, or into a trace or a list of what would be launched.

use super::timestamps::TimestampAddresses;
use crate::device::{Error, Geometry, Kernel, Parameters, Stream, Template};
use crate::graph::Trace;

/// Takes launches in their order.
#[derive(Debug)]
pub(super) struct LaunchQueue<'q> {
    to: To<'q>,
    operation: &'static str,
    /// Operations leave their timestamps there, if anyone asks.
    timestamps: Option<TimestampAddresses>,
    stamp: u64,
    /// Launches may begin while those before them end.
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
    /// Launches.
    pub(super) fn launching(
        stream: &'q mut Stream,
        timestamps: Option<TimestampAddresses>,
    ) -> Self {
        Self::to(To::Stream(stream), timestamps)
    }

    /// Launches nothing.
    pub(super) fn tracing(trace: &'q mut Trace) -> Self {
        Self::to(To::Trace(trace), None)
    }

    /// Launches nothing either: writes down the operation and the kernel of each launch.
    pub(super) fn naming(names: &'q mut Vec<(&'static str, String)>) -> Self {
        Self::to(To::Names(names), None)
    }

    /// Has launches recorded by a stream that is being captured, and written down.
    pub(super) fn recording(
        stream: &'q mut Stream,
        timestamps: Option<TimestampAddresses>,
        trace: &'q mut Trace,
    ) -> Self {
        Self::to(To::Recording(stream, trace), timestamps)
    }

    /// Sets those launches of a template that are not as they `were`, and writes down what all of them are then.
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

    /// Whether all of the next launches may begin while those before them end.
    pub(super) fn set_early(&mut self, early: bool) {
        self.early = early;
    }

    /// The operation that the next launches belong to.
    pub(super) fn begin(&mut self, index: usize, operation: &'static str) {
        self.operation = operation;
        self.stamp = self.timestamps.map_or(0, |timestamps| timestamps.of(index));
    }

    /// Where the operation's launches leave their timestamps; 0 for nowhere.
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
        // SAFETY: every address is of an arena that `Cuda` owns and drops after its graphs and its stream's work;
        // shapes and bounds are those of a checked tape, and regions were planned for its rows.
        unsafe { kernel.launch(stream, (geometry, self.early), args) }
    }
}

/// Parameters as numbers; their structs are of whole 4-byte words.
fn words<A: Parameters>(args: &A) -> impl Iterator<Item = u64> + '_ {
    let from = std::ptr::from_ref(args).cast::<u32>();
    // SAFETY: `Parameters` promises a struct of 4- and 8-byte numbers without padding, and it is borrowed here.
    let words = unsafe { std::slice::from_raw_parts(from, size_of::<A>() / 4) };
    words.iter().copied().map(u64::from)
}
