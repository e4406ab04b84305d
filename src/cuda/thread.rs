//! Moves an executor to another thread: one thread loads a model, another runs it.
//!
//! Only whole executors move. Two threads never use one at the same time.

use super::Cuda;

// SAFETY: the fields that are not `Send` are `Rc`s of the context and modules, and handles and addresses of the driver.
// All clones of the `Rc`s are within the `Cuda`, because `Cuda::new` takes the only `Device` that has them and gives
// none away. `retire` moves all of them to a `RetiredCuda`, which stays on its thread, and `Device::of_retired` takes all
// of them out of that. They move together, and only one thread at a time changes their counts. Any thread may use the handles
// while their context is current; otherwise the driver refuses the call and does nothing. Memory that the CPU accesses
// (mailboxes, unified memory) has the same address in all threads.
unsafe impl Send for Cuda {}

impl Drop for Cuda {
    fn drop(&mut self) {
        // The context may not be current on this thread, and then nothing could be freed. An error occurs again at the
        // next call.
        let _ = self.context.make_current();
    }
}
