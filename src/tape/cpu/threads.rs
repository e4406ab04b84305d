//! The threads that compute. Between two operations they may sleep: to look for work instead is quicker, but one that
//! looked was seen to do so for ever.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

#[derive(Clone, Debug)]
pub(super) struct Threads(Arc<ThreadPool>);

impl Threads {
    /// As many as `count`; 0 is one for each core.
    pub(super) fn new(count: usize) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("cpu-{index}"))
            .build()?;
        Ok(Self(Arc::new(pool)))
    }

    /// Runs operations, of which each can share its work among all threads.
    pub(super) fn run<R: Send>(&self, operations: impl FnOnce() -> R + Send) -> R {
        self.0.install(operations)
    }
}
