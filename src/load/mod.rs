//! From a model's files to a runner: settings, the plan of what is computed, admission to memory, loading.
//!
//! It runs no request. A runner knows nothing of this folder, and the engine uses only the names below.

// What to load, and how.
mod control_group;
mod head;
mod kv_choice;
mod kv_memory;
mod settings;
mod tower_file;
mod tower_mismatch;
// Before anything is allocated.
mod admission;
mod assistant;
mod draft;
mod open_model;
mod open_tower;
mod page_cache;
mod plan;
mod prefill_chunk;
mod preflight;
mod recommended_sampling;
// The load itself.
mod error;
mod fit;
mod kv_selection;
mod loader;
mod stored_weights;
mod tower;

pub use crate::cpu::Precision;
pub use admission::{Admitted, MemoryRefusal, Pool};
pub use assistant::OpenAssistant;
pub use control_group::{ControlGroups, ServiceGroup};
pub use draft::{OpenDraft, open_draft};
pub use error::LoadError;
pub use head::Head;
pub use kv_choice::{KvChoice, KvChoices};
pub use kv_memory::KvMemory;
pub use kv_selection::{PROBE, expected_kv};
pub use loader::{Loaded, runner, runner_after, runner_with_draft};
pub use open_model::{OpenModel, OpenPart};
pub use open_tower::{FoundTower, OpenTower, open_tower, with_tower};
pub use page_cache::available;
pub use preflight::{Target, admit};
pub(crate) use recommended_sampling::sampling;
pub use settings::{
    Activations, Backend, CudaSettings, Placement, Settings, TowerNeeds, VisionSettings,
};
#[cfg(feature = "cuda")]
pub use tower::tower_memory_on_cuda;
pub use tower::{tower, tower_memory};
pub use tower_file::TowerFile;
pub use tower_mismatch::TowerMismatch;
