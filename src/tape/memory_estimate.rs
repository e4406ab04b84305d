//! How much memory a model takes on an executor, worked out before anything is allocated.
//!
//! Executors derive it from what they allocate by, so that the two cannot differ.

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// As they will lie in memory, padding included.
    pub weights: u64,
    pub kv: u64,
    /// Activations, and whatever else lives as long as the model.
    pub activations: u64,
}

impl MemoryEstimate {
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.weights + self.kv + self.activations
    }
}
