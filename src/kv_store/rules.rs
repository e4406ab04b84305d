//! The limits on space and writes, and the times of writing.

use std::time::Duration;

/// The settings of the page store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The most bytes of all files; 0 disables the store.
    pub bytes: u64,
    /// The most bytes written in a day; `None` is unlimited.
    pub writes: Option<u64>,
    /// How long a session is idle before its pages are written.
    pub rest: Duration,
    /// The time for writing pages when the daemon stops.
    pub stop: Duration,
    /// Whether measurements decide between the disk and prefilling. Otherwise files are always used.
    pub measured: bool,
}
