//! Memory that this process holds, as the kernel counts it.

/// Bytes.
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
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        Some(Self {
            now: bytes(&status, "VmRSS:")?,
            peak: bytes(&status, "VmHWM:")?,
        })
    }
}

/// The value of the first line that begins with `key`, in a file of the kernel's.
pub(super) fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}
