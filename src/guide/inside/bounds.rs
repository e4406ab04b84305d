//! The limits of a grammar's process: processor time and memory. The kernel ends a process that exceeds them.

use std::time::Duration;
use std::{fs, io};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

/// The stack of the compiling thread, deep enough for the deepest grammar. Untouched stack uses no memory.
pub(super) const STACK: usize = 64 << 20;

/// Returns the processor time of this process.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map(Duration::from).unwrap_or_default()
}

/// Returns the processor time of this thread. While a `Clock` runs, the kernel updates that of the process only with
/// each tick.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map(Duration::from).unwrap_or_default()
}

/// A timer that ends this process when it has computed for too long.
pub(super) struct Clock(Timer);

impl Clock {
    /// Makes the timer of this process, because a fork has none.
    pub(super) fn new() -> io::Result<Self> {
        let signal = SigevNotify::SigevSignal {
            signal: Signal::SIGXCPU,
            si_value: 0,
        };
        let timer = Timer::new(ClockId::CLOCK_PROCESS_CPUTIME_ID, SigEvent::new(signal));
        Ok(Self(timer?))
    }

    /// Does `work`. The kernel ends this process if that takes more than `most` of processor time.
    pub(super) fn bound<T>(&mut self, most: Duration, work: impl FnOnce() -> T) -> io::Result<T> {
        self.set(most.max(Duration::from_millis(1)))?;
        let done = work();
        self.set(Duration::ZERO)?;
        Ok(done)
    }

    fn set(&mut self, most: Duration) -> io::Result<()> {
        let once = Expiration::OneShot(TimeSpec::from_duration(most));
        Ok(self.0.set(once, TimerSetTimeFlags::empty())?)
    }
}

/// The address space of this process.
pub(super) struct Memory {
    /// Bytes when it started.
    start: usize,
}

impl Memory {
    pub(super) fn new() -> io::Result<Self> {
        let statm = fs::read_to_string("/proc/self/statm")?;
        let pages = statm.split_whitespace().next().and_then(|n| n.parse().ok());
        let pages: usize = pages.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            start: pages * rustix::param::page_size(),
        })
    }

    /// Limits this process to its bytes at the start, `more` bytes, and the stack of the compiling thread.
    pub(super) fn bound(&self, more: usize) -> io::Result<()> {
        let most = (self.start + more + STACK) as u64;
        let (_, hard) = getrlimit(Resource::RLIMIT_AS)?;
        Ok(setrlimit(Resource::RLIMIT_AS, most.min(hard), hard)?)
    }
}

/// Returns the bytes of memory that this process does not share.
pub(super) fn own_bytes() -> usize {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    let kib = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.sum::<usize>() << 10
}
