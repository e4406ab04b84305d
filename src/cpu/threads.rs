//! The threads that compute. While a tape runs they look for work rather than sleep: an operation of a step takes a few
//! microseconds, and to wake a thread that sleeps takes longer. Nobody waits for a thread that has taken nothing, so one that
//! the system gives to somebody else meanwhile keeps nobody up.
//!
//! Only the thread that runs a tape waits for others. A thread that waits may be given the looking to do, and looks until the
//! tape is over: were it waited for itself, that would be for ever. So what is handed out waits for nothing: see `each`.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Yield;

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

/// Runs on each item, on whatever thread is free. A thread that helps takes one item after the other as long as there are some;
/// rayon's own iterators divide what they have and wait for the halves.
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
            // The guard goes before the work begins.
            let item = items.lock().unwrap_or_else(PoisonError::into_inner).next();
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

    /// Who looks for work while it is waited for looks for ever.
    #[test]
    fn nobody_waits_for_one_who_looks_for_work() {
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
