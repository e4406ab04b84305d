//! What a decode graph needs of an executor: a step that can be run, recorded and replayed, whole or in part.

use std::fmt::Display;
use std::ops::Range;

use super::Trace;
use super::event::{Refused, Renewal};

/// One step of an executor, as a list of operations. Nothing here waits for what it launches, but `settle`.
pub trait Stepper {
    /// Some operations, recorded.
    type Recording;
    /// What replays them.
    type Exec;
    type Error: Display;

    /// How many operations the step has.
    fn operations(&self) -> usize;

    /// How many rows it has: each number of them has executable graphs of its own.
    fn rows(&self) -> usize;

    /// Whether an operation stays out of every segment (piecewise).
    fn is_break(&self, operation: usize) -> bool;

    /// Where a step that may be left is cut, as operations before which it stops.
    fn cuts(&self) -> Vec<usize>;

    /// A number that differs when any address or launch geometry may differ.
    fn layout(&self) -> u64;

    /// Every address and launch geometry of the step as it would run now.
    fn trace(&mut self) -> Trace;

    /// Launches operations.
    fn eager(&mut self, operations: Range<usize>) -> Result<(), Self::Error>;

    /// Records operations instead of running them.
    ///
    /// # Errors
    /// If the driver refuses; nothing is being recorded then.
    fn record(&mut self, operations: Range<usize>) -> Result<Self::Recording, Self::Error>;

    /// How many launches one replay makes.
    fn nodes(exec: &Self::Exec) -> usize;

    /// Makes a recording executable and brings it to the device.
    fn instantiate(&mut self, recording: Self::Recording) -> Result<Self::Exec, Self::Error>;

    /// Makes a living executable graph do what recording these operations now would give.
    ///
    /// # Errors
    /// If the driver refuses; what it does is then unknown, and it is renewed again before it is launched.
    fn renew(
        &mut self,
        exec: &mut Self::Exec,
        operations: Range<usize>,
    ) -> Result<Renewal, Self::Error>;

    /// Queues one replay.
    fn launch(&mut self, exec: &mut Self::Exec) -> Result<(), Self::Error>;

    /// Bytes of the device's memory that are free, as well as it can tell.
    fn free_memory(&self) -> u64;

    /// After a refusal: waits until nothing runs, and tells whether the whole step ran all the same.
    fn settle(&mut self) -> Result<bool, Self::Error>;

    /// Whether the driver refused a call, so that the step can be run in another way; otherwise the step itself
    /// or the device has failed.
    fn is_refusal(error: &Self::Error) -> bool;

    /// The driver's own name of an error; an executor without a driver knows none.
    #[must_use]
    fn driver_error(_: &Self::Error) -> Option<&str> {
        None
    }

    /// A refusal, as it is told.
    fn refused(error: &Self::Error) -> Refused {
        Refused {
            text: error.to_string(),
            driver_error: Self::driver_error(error).map(str::to_owned),
        }
    }
}
