//! Tells the journal why something failed, where that is the memory's fault or the GPU's.

use crate::engine::caller::error::EngineError;
use crate::journal;
use crate::load::LoadError;

/// A model cannot be loaded.
pub(crate) fn load_error(error: &LoadError) {
    if let LoadError::Memory(refusal) = error {
        let (need, have, largest) = (refusal.need(), refusal.have(), refusal.largest());
        journal::memory_refused(&error.to_string(), need, have, largest);
    } else if let Some(name) = error.driver_error() {
        journal::gpu_error(&error.to_string(), name);
    }
}

/// What was accepted has failed.
pub(crate) fn engine_error(error: &EngineError) {
    if let Some(name) = error.driver_error() {
        journal::gpu_error(&error.to_string(), name);
    }
}
