//! Reads values from kernel files with one value a line, such as /proc/meminfo.
//!
//! The crate procfs reads only the files of this machine. Tests and doctor read copies.

/// Returns the bytes in the first line that begins with `key`.
#[must_use]
pub fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
