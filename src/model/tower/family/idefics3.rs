//! Idefics 3 and SmolVLM: SigLIP on tiles of one size, whose patches are concatenated to tokens.

use super::siglip;
use super::tower_family::{TensorSizes, TowerFamily, size_or};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::{GGUF, SIGLIP, TowerNames, linear};
use crate::model::tower::shape::{Positions, ProjectorShape, TowerShape};
use crate::model::tower::weights::Merger;

const FAMILY: &str = "idefics3";

const CONFIG_NAMES: TowerNames = TowerNames {
    roots: &[
        ["model.vision_model.", "model.connector."],
        ["vision_model.", "connector."],
    ],
    projector: Merger {
        norm: None,
        first: linear("modality_projection.proj.weight"),
        second: None,
    },
    ..SIGLIP
};

const GGUF_NAMES: TowerNames = TowerNames {
    projector: Merger {
        norm: None,
        first: linear("model.fc.weight"),
        second: None,
    },
    ..GGUF
};

pub(super) const IDEFICS3: TowerFamily = TowerFamily {
    models: &["idefics3", "smolvlm"],
    projector: "idefics3",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    from_config,
    from_gguf,
};

/// Hidden size, width, blocks, heads, and the size of a patch that a config.json leaves out.
const DEFAULTS: siglip::Defaults = [1152, 3072, 12, 16, 32];

fn from_config(keys: &dyn Keys) -> Result<TowerShape, Defect> {
    let plain = siglip::of_config(keys, FAMILY, DEFAULTS)?;
    let tile = size_or(keys, "vision_config.image_size", 224)?;
    let side = size_or(keys, "scale_factor", 2)?;
    let text = keys.needed("text_config.hidden_size")?;
    shape(plain, tile, side, text)
}

fn from_gguf(keys: &dyn Keys, _: TensorSizes<'_>) -> Result<TowerShape, Defect> {
    let plain = siglip::of_gguf(keys, FAMILY)?;
    let tile = keys.needed("vision.image_size")?;
    let side = keys.needed("vision.projector.scale_factor")?;
    let text = keys.needed("vision.projection_dim")?;
    shape(plain, tile, side, text)
}

fn shape(plain: TowerShape, tile: usize, side: usize, text: usize) -> Result<TowerShape, Defect> {
    let patches = tile.checked_div(plain.patch.size).unwrap_or(0);
    TowerShape {
        positions: Positions::Fixed { side: patches },
        projector: ProjectorShape {
            side,
            text,
            ..ProjectorShape::CONCATENATED
        },
        ..plain
    }
    .check()
}
