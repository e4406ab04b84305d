//! The threads that compute. They are awake from the first operation of a tape to its last: an operation of a step takes
//! a few microseconds, and to wake a thread that sleeps takes longer.

use std::sync::Arc;

use rayon::iter::IndexedParallelIterator;

/// Pieces of an operation for each thread: one that is slow, or that the system gives to somebody else meanwhile, leaves some
/// of its own to the others.
const PIECES: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Threads {
    pool: Arc<rayon::ThreadPool>,
}

impl Threads {
    /// So many; 0: one for each core.
    pub(super) fn new(count: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("cpu-{index}"))
            .build()?;
        Ok(Self {
            pool: Arc::new(pool),
        })
    }

    /// Runs what calls `each` on them.
    pub(super) fn run<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        let count = self.pool.current_num_threads();
        self.pool.install(|| {
            if count == 1 {
                return run();
            }
            spindle::with_lock(count, run)
        })
    }
}

/// How long pieces are, multiples of `unit`, that so much is to be divided into.
pub(super) fn piece(length: usize, unit: usize) -> usize {
    let pieces = PIECES * rayon::current_num_threads();
    length.div_ceil(unit).div_ceil(pieces).max(1) * unit
}

/// Runs on each item, a thread each, as long as there are some. Nobody waits for a thread if there is but one.
pub(super) fn each<I: IndexedParallelIterator>(items: I, run: impl Fn(I::Item) + Sync) {
    spindle::for_each(usize::MAX, items, run);
}
