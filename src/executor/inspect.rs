//! Views of an executor that do not change what it computes: logits, times, memory, launches.

use super::step::{ExecuteError, Span, Timed};
use crate::tape::Tape;

/// What an executor shows about its runs.
pub trait Inspect {
    /// The multiprocessors that kernels run on, and all that the GPU has; `None` for a CPU.
    fn multiprocessors(&self) -> Option<(u32, u32)> {
        None
    }

    /// Bytes of activations and of scratch memory.
    fn activation_bytes(&self) -> u64;

    /// One row of the logits of a tape that ends with `Ending::Logits`.
    fn logits(&self, tape: &Tape, row: usize) -> &[f32];

    /// All rows of logits of the last finished run, (rows, vocabulary).
    ///
    /// # Errors
    /// If the device has failed.
    fn all_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError>;

    /// Whether `all_logits` returns those of the step whose tokens were taken last, even if another step was launched after
    /// it.
    fn keeps_logits(&self) -> bool {
        false
    }

    /// Runs one prepared step of the active slot, operation by operation, and returns when each operation began and ended.
    /// Recordings are not used. Returns `None` if the step had been launched ahead and so was not timed.
    ///
    /// # Errors
    /// As `Steps::step`, or if there is not enough memory for the timestamps.
    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError>;

    /// Lets operations of all later steps take timestamps. A CPU always takes them for each operation.
    ///
    /// # Errors
    /// If there is not enough memory for the timestamps.
    fn measure(&mut self, step: &Tape, timed: Timed) -> Result<(), ExecuteError>;

    /// When each operation of the last step began and ended; `None` for an operation that is part of another one's kernel.
    /// Empty without `measure`.
    ///
    /// # Errors
    /// If the device has failed.
    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError>;

    /// The name of the operation and of the kernel of each launch of a tape. A CPU has one launch for each operation.
    fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)>;

    /// The decode graph in DOT, one digraph for each segment; empty before the first recording.
    ///
    /// # Errors
    /// If the driver cannot write it.
    fn graph_dot(&self) -> Result<String, ExecuteError>;
}
