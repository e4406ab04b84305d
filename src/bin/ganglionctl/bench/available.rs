//! Memory that the system could still give: what the kernel says, and the pages that it forgets.

use std::fs::read_to_string;

use super::resident::bytes;

/// Reads the bytes that programs could still get without swapping.
pub(crate) struct Available {
    page: u64,
}

impl Available {
    pub(crate) fn new() -> Option<Self> {
        let map = read_to_string("/proc/self/smaps").ok()?;
        let page = bytes(&map, "KernelPageSize:")?;
        Some(Self { page })
    }

    /// `None` where the kernel does not tell.
    pub(crate) fn read(&self) -> Option<u64> {
        let available = bytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
        // Freed pages that a core keeps for its next allocation count as used: since Linux 6.7 up to an
        // eighth of all memory, which would hide a load that takes them.
        let zones = read_to_string("/proc/zoneinfo").unwrap_or_default();
        let kept = zones
            .lines()
            .filter_map(|line| line.trim().strip_prefix("count:"));
        let pages: u64 = kept
            .filter_map(|pages| pages.trim().parse::<u64>().ok())
            .sum();
        pages.checked_mul(self.page)?.checked_add(available)
    }
}
