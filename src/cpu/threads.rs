//! The threads that compute. While a tape runs they look for work rather than sleep: an operation of a step takes a few
//! microseconds, and to wake a thread that sleeps takes longer. Nobody waits for a thread that has taken nothing, so one that
//! the system gives to somebody else meanwhile keeps nobody up.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::Yield;
use rayon::iter::{IndexedParallelIterator, ParallelIterator as _};

/// Pieces of an operation for each thread: one that is slow leaves some of its own to the others.
const PIECES: usize = 4;
/// How often a thread looks in vain before it lets others of the system run.
const LOOKS: u32 = 200;

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
        self.pool.install(|| {
            let over = Over(Arc::default());
            let (me, is_over) = (rayon::current_thread_index(), over.0.clone());
            if self.pool.current_num_threads() > 1 {
                // Each thread has its own: whoever waits for something here takes none of the others'.
                rayon::spawn_broadcast(move |thread| {
                    if Some(thread.index()) != me {
                        look_for_work(&is_over);
                    }
                });
            }
            run()
        })
    }
}

/// Ends the looking, whatever happens.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn look_for_work(is_over: &AtomicBool) {
    let mut looks = 0;
    while !is_over.load(Ordering::Acquire) {
        match rayon::yield_now() {
            Some(Yield::Executed) => looks = 0,
            _ if looks < LOOKS => {
                looks += 1;
                spin_loop();
            }
            _ => std::thread::yield_now(),
        }
    }
}

/// How long pieces are, multiples of `unit`, that so much is to be divided into.
pub(super) fn piece(length: usize, unit: usize) -> usize {
    let pieces = PIECES * rayon::current_num_threads();
    length.div_ceil(unit).div_ceil(pieces).max(1) * unit
}

/// Runs on each item, on whatever thread is free.
pub(super) fn each<I: IndexedParallelIterator>(items: I, run: impl Fn(I::Item) + Sync + Send) {
    items.with_max_len(1).for_each(run);
}
