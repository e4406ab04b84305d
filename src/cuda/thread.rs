//! An executor's way to another thread: one loads a model, another runs it.
//!
//! Only the whole executor goes. Two threads never use one together.

use super::Cuda;

// SAFETY: what keeps it on a thread are `Rc`s of its context and modules, and handles and addresses of the driver.
// Of the `Rc`s every clone lies within the `Cuda`, for `Cuda::new` takes the only `Device` that has them and gives none
// away: they go to the other thread together, and their counts are only ever changed by one thread at a time. Handles
// may be used by any thread on which their context is current; on one where it is not, the driver refuses the call and
// does nothing. Memory that the CPU reaches (mailboxes, unified memory) is at the same address for every thread.
unsafe impl Send for Cuda {}

impl Drop for Cuda {
    fn drop(&mut self) {
        // It may never have been settled here, and nothing could be given back then. A failure is met again.
        let _ = self.context.make_current();
    }
}
