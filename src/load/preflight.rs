//! Whether a model would be admitted, asked without loading it: for tools that advise before the daemon starts.
//!
//! The answer is admission's own, so that advice and refusal cannot differ.

use super::admission::Admitted;
use super::error::LoadError;
use super::plan::plan;
use super::settings::Settings;
use super::{fit, prefill_chunk};
use crate::model::Checkpoint;

/// Where a model would lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Cpu,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU with so many bytes of its own that are free.
    Discrete(u64),
}

/// What the model would take there, if it would be admitted. `settings.groups` are the daemon's, not those of this process.
///
/// # Errors
/// As loading it: if it does not fit, the refusal names the largest context that does.
pub fn admit(
    checkpoint: &Checkpoint,
    settings: &Settings,
    site: Site,
) -> Result<Admitted, LoadError> {
    let (mut forward, _) = plan(checkpoint, settings)?;
    match site {
        Site::Cpu => fit::admit_on_cpu(
            &mut forward,
            &prefill_chunk::settled(settings, prefill_chunk::CPU),
        ),
        #[cfg(feature = "cuda")]
        Site::Integrated | Site::Discrete(_) => {
            forward.activation = settings.cuda.activations;
            let own = match site {
                Site::Discrete(free) => Some(free),
                Site::Cpu | Site::Integrated => None,
            };
            // A board's memory is only known on it: as of a large one.
            let chunk = prefill_chunk::of_gpu(own.unwrap_or(16 << 30), own.is_none());
            fit::admit_on_cuda(own, &mut forward, &prefill_chunk::settled(settings, chunk))
        }
        #[cfg(not(feature = "cuda"))]
        Site::Integrated | Site::Discrete(_) => Err(LoadError::NoCuda),
    }
}
