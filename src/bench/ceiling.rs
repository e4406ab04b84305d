//! The measured memory bandwidth of this machine.

use std::hint::black_box;
use std::time::Instant;

use crate::runner::Runner;

/// The size of the buffer, far above that of any cache.
const BYTES: usize = 512 << 20;
const PASSES: usize = 5;

/// The bandwidth that decoding is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    /// Whether it is the bandwidth of copies within a GPU's memory, reads and writes together. Otherwise it is that of
    /// sequential reads with the runner's number of threads.
    pub(super) copies: bool,
    pub(super) bytes_per_second: f64,
}

impl Ceiling {
    /// Measures the device that `runner` used: the GPU, a partition of it with `sms` multiprocessors, or the CPU with
    /// `threads` threads.
    pub(super) fn measure(runner: Runner, threads: usize, sms: Option<u32>) -> Option<Self> {
        let copies = runner.executor().multiprocessors().is_some();
        // A small GPU may not have room for both the model and the copy.
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

/// Returns the bytes per second of the best of several sequential reads of a large buffer, split between `threads`;
/// `None` if there is no memory for the buffer.
fn read_bandwidth(threads: usize) -> Option<f64> {
    let words = BYTES / size_of::<u64>();
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(words).ok()?;
    // Written pages are distinct; untouched ones would all be the same page of zeros.
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

/// Returns the bytes per second that the GPU, or a partition of it, copies within its memory, read and written
/// together. Reading alone is somewhat faster. `None` if the GPU cannot.
#[cfg(feature = "cuda")]
fn copy_bandwidth(multiprocessors: Option<u32>) -> Option<f64> {
    use crate::device::{Context, copy_bandwidth};
    copy_bandwidth(&Context::open_part(false, multiprocessors).ok()?).ok()
}

#[cfg(not(feature = "cuda"))]
fn copy_bandwidth(_: Option<u32>) -> Option<f64> {
    None
}

/// Sums in independent lanes, so that the loads are the bottleneck.
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
