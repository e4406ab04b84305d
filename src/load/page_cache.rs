//! Decides whether a load leaves the model's files in the page cache, from which the next load is faster.

use super::admission::{Budget, MemoryRefusal};
use super::settings::Settings;
use crate::model::Checkpoint;

/// Leaves the files in the page cache if more than twice their bytes are available. Otherwise they are read around it, so
/// that other programs keep their cached files.
pub(crate) fn prepare(checkpoint: &Checkpoint, settings: &Settings) {
    let twice = checkpoint.file_bytes().saturating_mul(2);
    // If the figure is unknown, admission reports it.
    if Budget::of_system(settings).is_ok_and(|budget| budget.have > twice) {
        checkpoint.stay_cached();
    }
}

/// Returns the bytes of memory that are available to this process.
///
/// # Errors
/// If the system does not report them.
pub fn available(settings: &Settings) -> Result<u64, MemoryRefusal> {
    Budget::of_system(settings).map(|budget| budget.have)
}
