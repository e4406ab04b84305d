//! What the kernel tells in files of a line for each value, such as /proc/meminfo.
//!
//! The crate procfs reads those of this machine alone; a test's own file may stand for one, and doctor reads a folder that
//! looks like a machine.

/// Bytes, by the first line that begins with `key`.
#[must_use]
pub fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
