//! Compares the memory that a model needs with the free memory, and explains a refusal.
//!
//! Without this the kernel would kill the process. Executors estimate the need, and the device reports its free memory.

use std::fmt;
use std::path::PathBuf;

use super::control_group::ControlGroups;
use super::settings::Settings;
use crate::executor::MemoryEstimate;
use crate::meminfo;

/// A kind of memory, and the source of its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// `MemAvailable` of this file: the CPU's memory, which an integrated GPU shares.
    System(PathBuf),
    /// The rest of a control group's limit, in this file.
    Group(PathBuf),
    /// The memory of a discrete GPU.
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
pub enum MemoryRefusal {
    #[error(
        "the model needs {} MiB (weights {}, KV {}, recurrent states {}, activations {}, reserve {}) and {} MiB {pool}; {}",
        mebibytes(.estimate.bytes() + .reserve), mebibytes(.estimate.weights), mebibytes(.estimate.kv),
        mebibytes(.estimate.states), mebibytes(.estimate.activations), mebibytes(*.reserve), .have >> 20,
        remedy(*.largest)
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
        "{refusal}; {} MiB of these are for {}, and {} MiB for {}, which can be left out: remove draft.model",
        mebibytes(*.model_bytes), model.display(), mebibytes(*.bytes), draft.display()
    )]
    WithDraft {
        refusal: Box<MemoryRefusal>,
        model: PathBuf,
        /// The memory that it needs without the draft model.
        model_bytes: u64,
        draft: PathBuf,
        bytes: u64,
    },
    #[error(
        "how much memory is available cannot be read from {}: {problem}; a service must not hide it \
         (ProcSubset=pid does)",
        file.display()
    )]
    Unknown { file: PathBuf, problem: String },
}

impl MemoryRefusal {
    /// Returns the bytes that are needed, if memory is the reason.
    pub(crate) fn need(&self) -> Option<u64> {
        match self {
            Self::Memory {
                estimate, reserve, ..
            } => Some(estimate.bytes() + reserve),
            Self::Passage {
                weights, reserve, ..
            } => Some(weights + reserve),
            Self::WithDraft { refusal, .. } => refusal.need(),
            Self::Buffer { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Returns the bytes that are free, if memory is the reason.
    pub(crate) fn have(&self) -> Option<u64> {
        match self {
            Self::Memory { have, .. } | Self::Passage { have, .. } => Some(*have),
            Self::WithDraft { refusal, .. } => refusal.have(),
            Self::Buffer { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Returns the bytes that are missing; `None` if more memory would not help.
    #[must_use]
    pub fn shortage(&self) -> Option<u64> {
        Some(self.need()?.saturating_sub(self.have()?))
    }

    /// Returns the greatest `kv.context` that would be admitted; 0 if none would.
    #[must_use]
    pub fn largest(&self) -> Option<usize> {
        match self {
            Self::Memory { largest, .. } | Self::Buffer { largest, .. } => Some(*largest),
            Self::WithDraft { refusal, .. } => refusal.largest(),
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

/// Rounds up, so that a need never looks smaller than the free memory.
const fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// The admission of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The memory that it needs.
    pub estimate: MemoryEstimate,
    /// The bytes that are free.
    pub have: u64,
}

/// The free memory, and the reserve for other programs.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) have: u64,
    pub(crate) reserve: u64,
    pub(crate) pool: Pool,
}

impl Budget {
    /// Returns the system's free memory according to /proc/meminfo, or the rest of a control group's limit if that is less.
    pub(crate) fn of_system(settings: &Settings) -> Result<Self, MemoryRefusal> {
        let file = &settings.meminfo;
        let have = std::fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| {
                let available = meminfo::bytes(&text, "MemAvailable:");
                available.ok_or_else(|| "it has no MemAvailable".into())
            });
        let have = have.map_err(|problem| MemoryRefusal::Unknown {
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

    /// Admits `context` positions if their memory fits. `estimate` returns the memory of a number of positions, or `None` if a
    /// buffer would be too large.
    pub(crate) fn admit(
        &self,
        context: usize,
        estimate: impl Fn(usize) -> Option<MemoryEstimate>,
    ) -> Result<Admitted, MemoryRefusal> {
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
            Some(estimate) => MemoryRefusal::Memory {
                estimate,
                reserve: self.reserve,
                have: self.have,
                pool: self.pool.clone(),
                largest,
            },
            None => MemoryRefusal::Buffer { context, largest },
        })
    }

    /// Admits weights in unified memory of a discrete GPU. They are in the system's memory until the GPU first reads them.
    #[cfg(feature = "cuda")]
    pub(crate) fn admit_passage(&self, weights: u64) -> Result<(), MemoryRefusal> {
        if self.holds(weights) {
            return Ok(());
        }
        Err(MemoryRefusal::Passage {
            weights,
            reserve: self.reserve,
            have: self.have,
            pool: self.pool.clone(),
        })
    }

    pub(crate) fn holds(&self, bytes: u64) -> bool {
        bytes.saturating_add(self.reserve) <= self.have
    }
}

/// Returns the greatest number below `limit` that `fits`; 0 if there is none. `fits` must be monotonic.
pub(crate) fn greatest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
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

    /// A cache can be too large for one allocation of a GPU, although there is memory for it.
    #[test]
    fn a_too_large_buffer_differs_from_too_little_memory() {
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
                MemoryRefusal::Buffer {
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
