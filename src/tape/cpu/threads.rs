//! The threads that compute. Between two operations of a step they do not sleep: to be woken would take as long as a
//! small operation does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder, Yield};

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
        self.0.install(|| awake(operations))
    }
}

/// Works while the other threads look for a share of it.
fn awake<R>(work: impl FnOnce() -> R) -> R {
    if rayon::current_num_threads() == 1 {
        return work();
    }
    let (done, worker) = (AtomicBool::new(false), rayon::current_thread_index());
    rayon::in_place_scope(|scope| {
        scope.spawn_broadcast(|_, thread| {
            // The one that works is called too, and may come here only as it waits for the others.
            while Some(thread.index()) != worker && !done.load(Relaxed) {
                if rayon::yield_now() != Some(Yield::Executed) {
                    // Whatever else wants to run goes first.
                    std::thread::yield_now();
                }
            }
        });
        let _done = Done(&done);
        work()
    })
}

/// Says so when it is dropped, by a panic too: otherwise the others would look for ever.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
