//! The files of a vision tower: those of its model's folder, or a GGUF file of its own (mmproj). Every tensor of the tower
//! has exactly one use, so that a tower with unknown parts is refused.
//!
//! Not here: weights in memory, and conversion to f32.

mod arranged;
mod checkpoint;
mod plan;

use std::path::Path;

pub use arranged::TowerTensor;
pub use checkpoint::TowerCheckpoint;

use self::plan::TowerPlan;
use super::config::tower as config_tower;
use super::gguf::tower as gguf_tower;
use super::{files, safetensors};
use crate::model::error::ModelError;
use crate::model::shown::shown;

/// Configs are a few kilobytes.
const LONGEST_CONFIG: u64 = 4 << 20;

impl TowerCheckpoint {
    /// Opens the tower of a folder with `config.json` and safetensors, or a GGUF file of the type mmproj. Returns `None` if
    /// the folder's model has no tower.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or holds a tower that `forward` does not compute.
    pub fn open(path: &Path) -> Result<Option<Self>, ModelError> {
        if path.is_dir() {
            of_folder(path)
        } else {
            of_gguf(path).map(Some)
        }
    }
}

fn of_folder(path: &Path) -> Result<Option<TowerCheckpoint>, ModelError> {
    let config = path.join("config.json");
    let described = files::read_text(&config, LONGEST_CONFIG)
        .and_then(|text| config_tower::read(&text))
        .map_err(|defect| defect.at(&config))?;
    let Some((family, shape)) = described else {
        return Ok(None);
    };
    let (directory, files) = safetensors::open(path)?;
    let found = TowerPlan::new(&shape, family.names[0], (&directory, &files), &[]).find();
    let (tensors, positions) = found.map_err(|defect| defect.at(path))?;
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = full.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some(TowerCheckpoint {
        name: shown(&folder).to_string(),
        shape,
        tensors,
        positions,
        files,
    }))
}

/// The parts of an mmproj file that belong to an audio encoder.
const AUDIO: [&str; 2] = ["a.", "mm.a."];

fn of_gguf(path: &Path) -> Result<TowerCheckpoint, ModelError> {
    let gguf_tower::Opened {
        name,
        family,
        shape,
        directory,
        files,
    } = gguf_tower::open(path)?;
    let found = TowerPlan::new(&shape, family.names[1], (&directory, &files), &AUDIO).find();
    let (tensors, positions) = found.map_err(|defect| defect.at(path))?;
    Ok(TowerCheckpoint {
        name,
        shape,
        tensors,
        positions,
        files,
    })
}
