//! Memory in figures: the bytes that a runner uses, and whether the system has more.

use std::fmt::{Debug, Formatter};

/// Bytes in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    pub weights: u64,
    /// Bytes of the cache that are allocated.
    pub kv: u64,
    /// Bytes of the recurrent states. A CPU takes them on first use.
    pub states: u64,
    pub activations: u64,
}

impl MemoryUse {
    /// Returns the bytes of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights,
            kv: self.kv + other.kv,
            states: self.states + other.states,
            activations: self.activations + other.activations,
        }
    }

    /// Returns all bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.weights + self.kv + self.states + self.activations
    }
}

/// Answers whether the system has a number of bytes to spare.
pub(crate) struct SystemMemory(Box<dyn Fn(u64) -> bool + Send>);

impl SystemMemory {
    pub(crate) fn new(has: impl Fn(u64) -> bool + Send + 'static) -> Self {
        Self(Box::new(has))
    }

    /// Whether the system has `bytes` besides those that are reserved for other programs.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        (self.0)(bytes)
    }
}

impl Debug for SystemMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("SystemMemory")
    }
}
