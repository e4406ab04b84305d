//! Reports failures to the journal that have an event of their own: too little memory, and errors of the GPU's driver.

use crate::engine::caller::error::EngineError;
use crate::journal;
use crate::load::LoadError;

/// Reports why a model could not be loaded.
pub(crate) fn load_error(error: &LoadError) {
    if let LoadError::Memory(refusal) = error {
        let (need, have, largest) = (refusal.need(), refusal.have(), refusal.largest());
        journal::memory_refused(&error.to_string(), need, have, largest);
    } else if let Some(name) = error.driver_error() {
        journal::gpu_error(&error.to_string(), name);
    }
}

/// Reports why an accepted request has failed.
pub(crate) fn engine_error(error: &EngineError) {
    if let Some(name) = error.driver_error() {
        journal::gpu_error(&error.to_string(), name);
    }
}
