//! Whether a model fits, asked before anything is allocated: better refused here than killed by the kernel.
//!
//! It compares and explains. What a model takes is the executors' to say, and what a GPU has free the device's.

use std::fmt;
use std::path::PathBuf;

use super::ControlGroups;
use super::settings::Settings;
use crate::executor::MemoryEstimate;
use crate::meminfo;

/// Memory of one kind, and where it is known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// `MemAvailable` of this file: the CPU's memory, which an integrated GPU shares.
    System(PathBuf),
    /// What is left of the limit in this file: a control group's, that this process or one around it is in.
    Group(PathBuf),
    /// A discrete GPU's own.
    Device,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(file) => write!(f, "are available (MemAvailable of {})", file.display()),
            Self::Group(file) => {
                let key = if file.ends_with("memory.high") {
                    "MemoryHigh="
                } else {
                    "MemoryMax="
                };
                write!(
                    f,
                    "are left of what its control group may take ({}: raise {key} of that unit)",
                    file.display()
                )
            }
            Self::Device => write!(f, "of the GPU's own memory are free"),
        }
    }
}

/// Why a model was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the model needs {} MiB (weights {}, KV {}, activations {}, reserve {}) and {} MiB {pool}; {}",
        mebibytes(.estimate.bytes() + .reserve), mebibytes(.estimate.weights), mebibytes(.estimate.kv),
        mebibytes(.estimate.activations), mebibytes(*.reserve), .have >> 20, remedy(*.largest)
    )]
    Memory {
        estimate: MemoryEstimate,
        reserve: u64,
        have: u64,
        pool: Pool,
        /// The greatest `kv.context` that would be admitted; 0 if none would.
        largest: usize,
    },
    #[error(
        "kv.context = {context} makes a buffer larger than the 512 MiB that a GPU's allocation may have here; {}",
        remedy(*.largest)
    )]
    Buffer { context: usize, largest: usize },
    #[error(
        "weights in unified memory pass through the CPU's: they need {} MiB there (reserve {} of them) and {} MiB \
         {pool}; set memory.weights = \"device\", or use a smaller quantization of the model",
        mebibytes(.weights + .reserve), mebibytes(*.reserve), .have >> 20
    )]
    Passage {
        weights: u64,
        reserve: u64,
        have: u64,
        pool: Pool,
    },
    #[error(
        "how much memory is available cannot be read from {}: {problem}; a service must not hide it \
         (ProcSubset=pid does)",
        file.display()
    )]
    Unknown { file: PathBuf, problem: String },
}

impl Refusal {
    /// Bytes that would have to be there, if that is what it is about.
    pub(super) fn need(&self) -> Option<u64> {
        match self {
            Self::Memory {
                estimate, reserve, ..
            } => Some(estimate.bytes() + reserve),
            Self::Passage {
                weights, reserve, ..
            } => Some(weights + reserve),
            Self::Buffer { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Bytes that are there.
    pub(super) fn have(&self) -> Option<u64> {
        match self {
            Self::Memory { have, .. } | Self::Passage { have, .. } => Some(*have),
            Self::Buffer { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Bytes that would have to be free besides; `None` if that would not help.
    #[must_use]
    pub fn shortage(&self) -> Option<u64> {
        Some(self.need()?.saturating_sub(self.have()?))
    }

    /// The greatest `kv.context` that would be admitted; 0 if none would.
    pub(super) fn largest(&self) -> Option<usize> {
        match self {
            Self::Memory { largest, .. } | Self::Buffer { largest, .. } => Some(*largest),
            Self::Passage { .. } | Self::Unknown { .. } => None,
        }
    }
}

fn remedy(largest: usize) -> String {
    if largest == 0 {
        return "no kv.context is small enough: use a smaller quantization of the model, a smaller model, or stop \
                what else uses this memory"
            .into();
    }
    format!(
        "the largest kv.context that fits is {largest}: lower it or kv.memory_mib, or stop what else uses this memory"
    )
}

/// Rounded up: what is needed must not look as if it were there.
const fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// A model that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What it will take.
    pub estimate: MemoryEstimate,
    /// Bytes that there are.
    pub have: u64,
}

/// What there is, and what of it is left to others.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) have: u64,
    pub(super) reserve: u64,
    pub(super) pool: Pool,
}

impl Budget {
    /// What /proc/meminfo, or a file like it, tells; or what a control group leaves of it.
    pub(super) fn of_system(settings: &Settings) -> Result<Self, Refusal> {
        let file = &settings.meminfo;
        let have = std::fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| {
                let available = meminfo::bytes(&text, "MemAvailable:");
                available.ok_or_else(|| "it has no MemAvailable".into())
            });
        let have = have.map_err(|problem| Refusal::Unknown {
            file: file.into(),
            problem,
        })?;
        let left = settings.groups.as_ref().and_then(ControlGroups::left);
        let (have, pool) = match left {
            Some(left) if left.bytes < have => (left.bytes, Pool::Group(left.file)),
            _ => (have, Pool::System(file.into())),
        };
        Ok(Self {
            have,
            reserve: settings.reserve,
            pool,
        })
    }

    /// Admits `context` positions if what they take fits. `estimate` tells it for any number of them, or
    /// nothing where a buffer would be too large.
    pub(super) fn admit(
        &self,
        context: usize,
        estimate: impl Fn(usize) -> Option<MemoryEstimate>,
    ) -> Result<Admitted, Refusal> {
        let asked = estimate(context);
        let fits = |estimate: Option<MemoryEstimate>| {
            estimate.is_some_and(|estimate| self.holds(estimate.bytes()))
        };
        if let Some(estimate) = asked.filter(|estimate| fits(Some(*estimate))) {
            return Ok(Admitted {
                estimate,
                have: self.have,
            });
        }
        let largest = greatest(context, |fewer| fits(estimate(fewer)));
        Err(match asked {
            Some(estimate) => Refusal::Memory {
                estimate,
                reserve: self.reserve,
                have: self.have,
                pool: self.pool.clone(),
                largest,
            },
            None => Refusal::Buffer { context, largest },
        })
    }

    /// Admits weights that the CPU writes to unified memory of a discrete GPU: they lie in the CPU's until
    /// the GPU first reads them.
    #[cfg(feature = "cuda")]
    pub(super) fn admit_passage(&self, weights: u64) -> Result<(), Refusal> {
        if self.holds(weights) {
            return Ok(());
        }
        Err(Refusal::Passage {
            weights,
            reserve: self.reserve,
            have: self.have,
            pool: self.pool.clone(),
        })
    }

    pub(super) fn holds(&self, bytes: u64) -> bool {
        bytes.saturating_add(self.reserve) <= self.have
    }
}

/// The greatest number below `limit` for which `fits` holds, as it does for all that are less; 0 if there is none.
pub(super) fn greatest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut excess) = (0, limit);
    while excess - fitting > 1 {
        let middle = fitting.midpoint(excess);
        if fits(middle) {
            fitting = middle;
        } else {
            excess = middle;
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_that_fits_is_found_exactly() {
        for limit in 1..40 {
            for most in 0..limit {
                assert_eq!(greatest(limit, |n| n <= most), most);
            }
        }
    }

    /// A discrete GPU's cache can be too long for one allocation though there is memory for it.
    #[test]
    fn a_buffer_that_is_too_large_is_told_from_memory_that_is_short() {
        let budget = Budget {
            have: 1 << 30,
            reserve: 0,
            pool: Pool::Device,
        };
        let estimate = |context| (context <= 100).then(MemoryEstimate::default);
        assert!(budget.admit(100, estimate).is_ok());
        let refusal = budget.admit(101, estimate).expect_err("it is too long");
        assert!(
            matches!(
                refusal,
                Refusal::Buffer {
                    context: 101,
                    largest: 100
                }
            ),
            "{refusal}"
        );
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn unified_weights_of_a_discrete_gpu_need_the_systems_memory_too() {
        let budget = Budget {
            have: 100 << 20,
            reserve: 28 << 20,
            pool: Pool::System("/proc/meminfo".into()),
        };
        assert!(budget.admit_passage(72 << 20).is_ok());
        let refusal = budget
            .admit_passage((72 << 20) + 1)
            .expect_err("a byte short");
        assert!(refusal.to_string().contains("memory.weights = \"device\""));
    }
}
