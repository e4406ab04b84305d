//! The speed that memory and multiprocessors allow.
//!
//! Decoding is bound by memory, or by the instructions that unpack weights where a mode lowers the GPU's clock more than the
//! memory's. A prompt is bound by the multiprocessors.

/// The part of a memory's bandwidth that steps reach. On an H100 it is 57 to 88% of a copy's speed, by format
/// (tests/bench/README.md).
const OF_BANDWIDTH: f64 = 0.7;
/// The bytes that 16 multiprocessors of an H200 read and unpack in a second: 226.3 steps of 2.594 GB (4B Q4_K_M,
/// tests/bench/README.md).
const UNPACKED: f64 = 587e9;
const PARTITION: f64 = 16.0;
/// The highest clock of an H100 and of an H200.
const HOPPER_HERTZ: f64 = 1.98e9;
/// The multiplications with a weight that a multiprocessor of an H200 completes in a cycle, in prompts of 2,048 tokens: 4,356
/// tokens/s of 3.63e9 weights (4B Q4_K_M) on 16 multiprocessors (tests/bench/README.md).
const PRODUCTS: f64 = 4_356.0 * 3.63e9 / (PARTITION * HOPPER_HERTZ);
/// The tensor units of an Orin's multiprocessor complete half as many multiplications in a cycle as those of an H200's: 1,024 and
/// 2,048 in f16, by their data sheets.
const TENSOR_UNITS: f64 = 0.5;

/// What bounds a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub multiprocessors: u32,
    pub gpu_hertz: f64,
    /// The bandwidth of its memory.
    pub bytes_per_second: f64,
}

/// The work of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The bytes that a step of one conversation reads.
    pub step_bytes: f64,
    /// The weights that each token of a prompt is multiplied with.
    pub products: f64,
}

impl Limits {
    /// Returns the tokens per second of one conversation.
    #[must_use]
    pub fn decode(&self, work: Work) -> f64 {
        let memory = OF_BANDWIDTH * self.bytes_per_second;
        let part = f64::from(self.multiprocessors) / PARTITION;
        let unpacked = UNPACKED * part * self.gpu_hertz / HOPPER_HERTZ;
        memory.min(unpacked) / work.step_bytes
    }

    /// Returns the tokens per second of a prompt of some thousands of tokens.
    #[must_use]
    pub fn prompt(&self, work: Work) -> f64 {
        let cycles = f64::from(self.multiprocessors) * self.gpu_hertz;
        cycles * PRODUCTS * TENSOR_UNITS / work.products
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        step_bytes: 2.5e9,
        products: 3.63e9,
    };

    #[test]
    fn a_fast_memory_is_bound_by_the_multiprocessors_and_a_slow_one_by_itself() {
        let slow_memory = Limits {
            multiprocessors: 16,
            gpu_hertz: 1.3e9,
            bytes_per_second: 204.8e9,
        };
        assert_eq!(slow_memory.decode(WORK).round().to_bits(), 57_f64.to_bits());
        let slow_clock = Limits {
            gpu_hertz: 0.2e9,
            ..slow_memory
        };
        let ratio = slow_clock.decode(WORK) / slow_memory.decode(WORK);
        assert!(ratio < 0.5, "{ratio}");
        // A prompt follows the clock.
        let ratio = slow_memory.prompt(WORK) / slow_clock.prompt(WORK);
        assert!((ratio - 6.5).abs() < 1e-9, "{ratio}");
    }
}
