//! The threads of the CPU executor. While a tape runs they look for work instead of sleeping: an operation of a step
//! takes a few microseconds, and waking a thread takes longer.
//!
//! The thread that runs a tape waits only for threads that have taken work, so a thread that the system has suspended
//! delays nothing. A waiting thread may itself be given the search for work, which ends with the tape; waiting for that
//! would never end. Therefore work given to `each` must not wait.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rayon::Yield;

/// Pieces of an operation for each thread. Other threads take some pieces of a slow thread.
const PIECES: usize = 4;
/// Failed searches for work after which a thread yields to the system.
const LOOKS: u32 = 200;

/// Threads for one executor, or for several of which one runs at a time.
#[derive(Clone, Debug)]
pub struct Threads {
    pool: Arc<rayon::ThreadPool>,
}

impl Threads {
    /// Starts a number of threads; 0 is one for each core.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(count: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("cpu-{index}"))
            .build()?;
        Ok(Self {
            pool: Arc::new(pool),
        })
    }

    /// Runs a function that calls `each` on the threads.
    pub(super) fn run<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        self.pool.install(|| {
            let over = Over(Arc::default());
            let (me, is_over) = (rayon::current_thread_index(), over.0.clone());
            if self.pool.current_num_threads() > 1 {
                // Each thread has its own search: a thread that waits for something here takes no other thread's
                // search.
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

/// Ends the search for work, also after a panic.
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

/// The length of pieces, a multiple of `unit`, for dividing `length`.
pub(super) fn piece(length: usize, unit: usize) -> usize {
    let pieces = PIECES * rayon::current_num_threads();
    length.div_ceil(unit).div_ceil(pieces).max(1) * unit
}

/// Runs work on each item, on any free thread.
///
/// A thread takes one item after another while there are any. rayon's own iterators split their items and wait for the
/// halves.
pub(super) fn each<T: Send>(
    items: impl ExactSizeIterator<Item = T> + Send,
    run: impl Fn(T) + Sync + Send,
) {
    let helpers = rayon::current_num_threads()
        .min(items.len())
        .saturating_sub(1);
    if helpers == 0 {
        return items.for_each(run);
    }
    let items = Mutex::new(items);
    let work = || {
        loop {
            // The lock is released before the work begins.
            let item = items.lock().next();
            let Some(item) = item else { break };
            run(item);
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| work());
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A thread that searches for work must not be waited for: it searches until the tape ends.
    #[test]
    fn a_thread_that_searches_for_work_is_never_waited_for() {
        let threads = Threads::new(4).expect("four threads");
        let count = AtomicUsize::new(0);
        for _ in 0..2000 {
            threads.run(|| {
                for _ in 0..20 {
                    each(0..16, |_| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
        assert_eq!(count.into_inner(), 2000 * 20 * 16);
    }
}
