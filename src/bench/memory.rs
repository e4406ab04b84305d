//! Memory as the kernel counts it: the process's own, and the available memory of the system.

use std::fs::read_to_string;

use crate::meminfo::bytes;

/// The resident memory of this process, in bytes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Resident {
    /// The present value (`VmRSS`).
    pub(super) now: u64,
    /// The peak (`VmHWM`).
    pub(super) peak: u64,
}

impl Resident {
    /// Reads the values; `None` where the kernel does not report them.
    pub(super) fn read() -> Option<Self> {
        let status = read_to_string("/proc/self/status").ok()?;
        Some(Self {
            now: bytes(&status, "VmRSS:")?,
            peak: bytes(&status, "VmHWM:")?,
        })
    }
}

/// Returns the bytes that programs could still allocate without swapping: the kernel's figure, corrected for pages that
/// it omits. `None` where the kernel does not report it.
pub(super) fn available() -> Option<u64> {
    let available = bytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    // Freed pages that a core keeps for its next allocation count as used. Since Linux 6.7 these can be an eighth of
    // all memory, which would hide a load that takes them.
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
