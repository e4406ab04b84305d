//! Gemma 3: SigLIP, whose patches are averaged to a fixed number of tokens.

use super::siglip;
use super::tower_family::{TensorSizes, TowerFamily, side_of, size_or};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::{GGUF, SIGLIP, TowerNames, linear, scale};
use crate::model::tower::shape::{Positions, ProjectorNorm, ProjectorShape, Reduction, TowerShape};
use crate::model::tower::weights::Merger;
use crate::tape::NormKind;

const FAMILY: &str = "gemma3";

const CONFIG_NAMES: TowerNames = TowerNames {
    roots: &[
        ["vision_tower.vision_model.", "multi_modal_projector."],
        [
            "model.vision_tower.vision_model.",
            "model.multi_modal_projector.",
        ],
        ["vision_tower.", "multi_modal_projector."],
        ["model.vision_tower.", "model.multi_modal_projector."],
    ],
    projector: Merger {
        norm: Some(scale("mm_soft_emb_norm.weight")),
        first: linear("mm_input_projection_weight"),
        second: None,
    },
    transposed: true,
    ..SIGLIP
};

const GGUF_NAMES: TowerNames = TowerNames {
    projector: Merger {
        norm: Some(scale("soft_emb_norm.weight")),
        first: linear("input_projection.weight"),
        second: None,
    },
    transposed: true,
    ..GGUF
};

pub(super) const GEMMA3: TowerFamily = TowerFamily {
    models: &["gemma3"],
    projector: "gemma3",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    from_config,
    from_gguf,
};

/// The side of the square of patches that becomes a token, if a GGUF file does not state it.
const SIDE: usize = 4;

fn from_config(keys: &dyn Keys) -> Result<TowerShape, Defect> {
    let plain = siglip::of_config(keys, FAMILY, siglip::SIGLIP)?;
    let image = size_or(keys, "vision_config.image_size", 224)?;
    let key = "mm_tokens_per_image";
    let tokens = side_of(keys, key, size_or(keys, key, 256)?)?;
    let patches = image.checked_div(plain.patch.size).unwrap_or(0);
    if !patches.is_multiple_of(tokens) {
        let allowed = format!("its root must divide the {patches} patches of a side");
        return Err(Defect::bad_value(key, tokens * tokens, allowed));
    }
    let text = keys.needed("text_config.hidden_size")?;
    // Weights are stored without the 1 that is added.
    shape(plain, patches, patches / tokens, text, 1.0)
}

fn from_gguf(keys: &dyn Keys, _: TensorSizes<'_>) -> Result<TowerShape, Defect> {
    let plain = siglip::of_gguf(keys, FAMILY)?;
    let image = keys.needed("vision.image_size")?;
    let patches = image.checked_div(plain.patch.size).unwrap_or(0);
    let side = size_or(keys, "vision.projector.scale_factor", SIDE)?;
    let text = keys.needed("vision.projection_dim")?;
    shape(plain, patches, side, text, 0.0)
}

fn shape(
    plain: TowerShape,
    patches: usize,
    side: usize,
    text: usize,
    added: f32,
) -> Result<TowerShape, Defect> {
    TowerShape {
        positions: Positions::Fixed { side: patches },
        projector: ProjectorShape {
            side,
            reduction: Reduction::Averaged {
                scale: 1.0,
                standardized: false,
            },
            norm: Some(ProjectorNorm {
                kind: NormKind::RootMeanSquare,
                epsilon: plain.epsilon,
                weighted: true,
                added,
            }),
            text,
            ..ProjectorShape::CONCATENATED
        },
        ..plain
    }
    .check()
}
