//! Turns that run beside each other: which of them an executor goes on with, and what is under way.

use super::Executor;

impl Executor {
    /// From now on the turn in another region of the cache is the one that runs; it goes on where it stands.
    pub fn turn_to(&mut self, region: usize) {
        match self {
            Self::Cpu(cpu) => cpu.turn_to(region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.turn_to(region),
        }
    }

    /// Whether a step was launched whose tokens have not been taken. Until they are, by `step_rows` of the same
    /// conversations, no other may run: it would take them away.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        match self {
            Self::Cpu(_) => false,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.is_ahead(),
        }
    }
}
