//! The memory that a model needs on an executor, computed before anything is allocated.
//!
//! Executors derive it from the sizes that they allocate, so that the two cannot differ.

/// Bytes of each kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Weights in their memory layout, including padding.
    pub weights: u64,
    /// Pages of the cache.
    pub kv: u64,
    /// Recurrent states, spare ones included.
    pub states: u64,
    /// Activations, and all else that lives as long as the model.
    pub activations: u64,
}

impl MemoryEstimate {
    /// The sum of all kinds.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.weights + self.kv + self.states + self.activations
    }

    /// Returns the memory of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights,
            kv: self.kv + other.kv,
            states: self.states + other.states,
            activations: self.activations + other.activations,
        }
    }
}
