//! How much may be kept and written, and when.

use std::time::Duration;

/// What is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Bytes of all files; 0: nothing is written, nor read.
    pub bytes: u64,
    /// Bytes that may be written in a day; `None`: as many as there are.
    pub writes: Option<u64>,
    /// How long a session rests before its pages are written.
    pub rest: Duration,
    /// What a stop may take for those that are not.
    pub stop: Duration,
    /// Whether what was measured decides between the disk and reading again; else what is on the disk always comes back.
    pub measured: bool,
}
