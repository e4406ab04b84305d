//! Checks whether a model would be admitted, without loading it: for tools that advise before the daemon starts.
//!
//! It uses the daemon's own admission, so that advice and refusal cannot differ.

use super::admission::Admitted;
use super::draft::OpenDraft;
use super::error::LoadError;
use super::plan::plan;
use super::settings::Settings;
use super::{fit, prefill_chunk};
use crate::model::Checkpoint;

/// The device that a model would be loaded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Cpu,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU with its free bytes.
    Discrete(u64),
}

/// Returns the memory that the model would need there, with the draft model that the settings name. `settings.groups` must be the daemon's, not those of this process.
///
/// # Errors
/// The error with which the daemon would refuse the model. If memory is short, it names the largest context that fits.
pub fn admit(
    checkpoint: &Checkpoint,
    settings: &Settings,
    target: Target,
) -> Result<Admitted, LoadError> {
    let draft = OpenDraft::unchecked(checkpoint.path(), settings)?;
    let assistant = draft.as_ref().and_then(OpenDraft::assistant);
    let (mut forward, _) = plan(checkpoint, assistant, settings)?;
    let admitted = match target {
        Target::Cpu => {
            let settings = prefill_chunk::settled(settings, prefill_chunk::CPU, &forward);
            let plan = OpenDraft::planned(draft.as_ref(), &settings, &forward)?;
            fit::admit_on_cpu(&mut forward, &settings, plan.as_ref())
        }
        #[cfg(feature = "cuda")]
        Target::Integrated | Target::Discrete(_) => {
            forward.activation = settings.cuda.activations;
            let own = match target {
                Target::Discrete(free) => Some(free),
                Target::Cpu | Target::Integrated => None,
            };
            // The memory of a board is only known on it, so this assumes a large one.
            let chunk = prefill_chunk::of_gpu(own.unwrap_or(16 << 30), own.is_none());
            let settings = prefill_chunk::settled(settings, chunk, &forward);
            let plan = OpenDraft::planned_on_gpu(draft.as_ref(), &settings, &forward)?;
            fit::admit_on_cuda(own, &mut forward, &settings, plan.as_ref())
        }
        #[cfg(not(feature = "cuda"))]
        Target::Integrated | Target::Discrete(_) => Err(LoadError::NoCuda),
    };
    admitted.map_err(|error| match assistant {
        Some(assistant) => assistant.named_in(error),
        None => error,
    })
}
