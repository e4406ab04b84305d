//! The interface between recordings and an executor: a step that can be run, recorded and replayed, whole or in part.

use std::fmt::Display;
use std::ops::Range;

use super::event::{Refused, Renewal};
use super::trace::Trace;

/// One step of an executor, as a list of operations. Only `settle` waits for launched work.
pub trait Stepper {
    /// A recording of some operations.
    type Recording;
    /// An executable graph that replays them.
    type Exec;
    type Error: Display;

    /// The number of operations.
    fn operations(&self) -> usize;

    /// The number of rows. Each number has its own executable graphs.
    fn rows(&self) -> usize;

    /// Whether this is a pass of a head, which has executable graphs of its own.
    fn guesses(&self) -> bool {
        false
    }

    /// Whether an operation runs eagerly in piecewise mode.
    fn is_break(&self, operation: usize) -> bool;

    /// The operations before which a step can be preempted.
    fn cuts(&self) -> Vec<usize>;

    /// A number that differs whenever an address or a launch geometry can differ.
    fn layout(&self) -> u64;

    /// The current addresses and launch geometries of the step.
    fn trace(&mut self) -> Trace;

    /// Launches operations.
    fn eager(&mut self, operations: Range<usize>) -> Result<(), Self::Error>;

    /// Records operations instead of running them.
    ///
    /// # Errors
    /// If the driver refuses. The capture has then ended.
    fn record(&mut self, operations: Range<usize>) -> Result<Self::Recording, Self::Error>;

    /// The number of launches of one replay.
    fn nodes(exec: &Self::Exec) -> usize;

    /// Makes a recording executable and brings it to the device.
    fn instantiate(&mut self, recording: Self::Recording) -> Result<Self::Exec, Self::Error>;

    /// Changes an executable graph to the operations with their current addresses.
    ///
    /// # Errors
    /// If the driver refuses. The graph has to be renewed again before its next launch.
    fn renew(
        &mut self,
        exec: &mut Self::Exec,
        operations: Range<usize>,
    ) -> Result<Renewal, Self::Error>;

    /// Queues one replay.
    fn launch(&mut self, exec: &mut Self::Exec) -> Result<(), Self::Error>;

    /// Free bytes of the device's memory, as the driver reports them.
    fn free_memory(&self) -> u64;

    /// Waits for launched work after a refusal, and returns whether the whole step ran all the same.
    fn settle(&mut self) -> Result<bool, Self::Error>;

    /// Whether the driver refused a call, so that the step can run eagerly. Otherwise the step itself or the device has failed.
    fn is_refusal(error: &Self::Error) -> bool;

    /// The driver's name of an error; `None` for an executor without a driver.
    #[must_use]
    fn driver_error(_: &Self::Error) -> Option<&str> {
        None
    }

    /// A refusal in the form in which events contain it.
    fn refused(error: &Self::Error) -> Refused {
        Refused {
            text: error.to_string(),
            driver_error: Self::driver_error(error).map(str::to_owned),
        }
    }
}
