//! The machine's ceiling: how fast it moves memory, measured and not looked up.

use std::hint::black_box;
use std::time::Instant;

use crate::runner::Runner;

/// The buffer has so many bytes: far more than any cache keeps of it between two passes.
const BYTES: usize = 512 << 20;
const PASSES: usize = 5;

/// What decode is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    /// It is the GPU's copies within its memory, reads and writes together; else sequential reads, with as many threads.
    pub(super) copies: bool,
    pub(super) bytes_per_second: f64,
}

impl Ceiling {
    /// Measures what `runner` ran on: the GPU, or a partition of so many multiprocessors, or so many threads.
    pub(super) fn measure(runner: Runner, threads: usize, sms: Option<u32>) -> Option<Self> {
        let copies = runner.executor().multiprocessors().is_some();
        // A small GPU may have no room for the copy beside the model.
        drop(runner);
        let speed = if copies {
            copy_bandwidth(sms)
        } else {
            read_bandwidth(threads)
        };
        speed.map(|bytes_per_second| Self {
            copies,
            bytes_per_second,
        })
    }
}

/// Bytes per second of the best of several sequential reads of a buffer larger than the caches, split
/// between `threads`; `None` if there is no memory for the buffer.
fn read_bandwidth(threads: usize) -> Option<f64> {
    let words = BYTES / size_of::<u64>();
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(words).ok()?;
    // Written, so that every page is its own: untouched ones are all the same page of zeros.
    buffer.extend((0_u64..).take(words));
    let share = words.div_ceil(threads.max(1));
    let seconds = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for part in buffer.chunks(share) {
                    scope.spawn(move || black_box(sum(part)));
                }
            });
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    #[allow(clippy::cast_precision_loss)] // 2^29 is exact
    Some(BYTES as f64 / seconds)
}

/// Bytes per second that the GPU, or a partition of so many multiprocessors, copies within its memory, read and written
/// together: reading alone is somewhat faster. `None` if it will not.
#[cfg(feature = "cuda")]
fn copy_bandwidth(multiprocessors: Option<u32>) -> Option<f64> {
    use crate::device::{Context, copy_bandwidth};
    copy_bandwidth(&Context::open_part(false, multiprocessors).ok()?).ok()
}

#[cfg(not(feature = "cuda"))]
fn copy_bandwidth(_: Option<u32>) -> Option<f64> {
    None
}

/// Sums in independent lanes, so that the loads and not the additions set the pace.
fn sum(words: &[u64]) -> u64 {
    let (lines, rest) = words.as_chunks::<16>();
    let mut sums = [0_u64; 16];
    for line in lines {
        for (sum, word) in sums.iter_mut().zip(line) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter()
        .chain(rest)
        .fold(0, |sum, word| sum.wrapping_add(*word))
}
