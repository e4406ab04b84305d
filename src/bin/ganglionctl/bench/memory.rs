//! Memory as the kernel counts it: what this process holds, and what the system could still give.

use std::fs::read_to_string;

use crate::kernel::bytes;

/// Bytes that this process holds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Resident {
    /// Now (`VmRSS`).
    pub(crate) now: u64,
    /// At most so far (`VmHWM`).
    pub(crate) peak: u64,
}

impl Resident {
    /// `None` where the kernel does not tell.
    pub(crate) fn read() -> Option<Self> {
        let status = read_to_string("/proc/self/status").ok()?;
        let [now, peak] = ["VmRSS:", "VmHWM:"].map(|key| bytes(&status, key));
        Some(Self {
            now: now?,
            peak: peak?,
        })
    }
}

/// Reads the bytes that programs could still get without swapping: what the kernel says, and the pages that it forgets.
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
        let kept = zones.lines().map(str::trim);
        let kept = kept.filter_map(|line| line.strip_prefix("count:")?.trim().parse::<u64>().ok());
        kept.sum::<u64>()
            .checked_mul(self.page)?
            .checked_add(available)
    }
}
