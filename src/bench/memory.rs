//! Memory as the kernel counts it: what this process holds, and what the system could still give.

use std::fs::read_to_string;

use crate::meminfo::bytes;

/// Bytes that this process holds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Resident {
    /// It holds so many now (`VmRSS`).
    pub(super) now: u64,
    /// It held so many at most so far (`VmHWM`).
    pub(super) peak: u64,
}

impl Resident {
    /// `None` where the kernel does not tell.
    pub(super) fn read() -> Option<Self> {
        let status = read_to_string("/proc/self/status").ok()?;
        Some(Self {
            now: bytes(&status, "VmRSS:")?,
            peak: bytes(&status, "VmHWM:")?,
        })
    }
}

/// Programs could still get so many bytes without swapping: what the kernel says, and the pages that it forgets. `None`
/// where it does not tell.
pub(super) fn available() -> Option<u64> {
    let available = bytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    // Freed pages that a core keeps for its next allocation count as used: since Linux 6.7 up to an
    // eighth of all memory, which would hide a load that takes them.
    let zones = read_to_string("/proc/zoneinfo").unwrap_or_default();
    let counts = zones
        .lines()
        .filter_map(|line| line.trim().strip_prefix("count:"));
    let kept: u64 = counts
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum();
    let page = rustix::param::page_size() as u64;
    kept.checked_mul(page)?.checked_add(available)
}
