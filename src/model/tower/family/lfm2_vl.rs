//! LFM2-VL: SigLIP 2 on images of any grid, with resized positions, and a projector with a norm and two products.

use super::siglip;
use super::tower_family::{TensorSizes, TowerFamily, activation, rows, side_of, size_or};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::{GGUF, SIGLIP, TowerNames, biased, norm};
use crate::model::tower::shape::{
    PatchShape, Positions, ProjectorNorm, ProjectorShape, TowerShape,
};
use crate::model::tower::weights::Merger;
use crate::tape::{Activation, NormKind};

const FAMILY: &str = "lfm2_vl";

const CONFIG_NAMES: TowerNames = TowerNames {
    roots: &[
        [
            "model.vision_tower.vision_model.",
            "model.multi_modal_projector.",
        ],
        ["vision_tower.vision_model.", "multi_modal_projector."],
        ["model.vision_tower.", "model.multi_modal_projector."],
        ["vision_tower.", "multi_modal_projector."],
    ],
    projector: Merger {
        norm: Some(norm("layer_norm.weight", "layer_norm.bias")),
        first: biased("linear_1.weight", "linear_1.bias"),
        second: Some(biased("linear_2.weight", "linear_2.bias")),
    },
    ..SIGLIP
};

const GGUF_NAMES: TowerNames = TowerNames {
    projector: Merger {
        norm: Some(norm("input_norm.weight", "input_norm.bias")),
        first: biased("1.weight", "1.bias"),
        second: Some(biased("2.weight", "2.bias")),
    },
    ..GGUF
};

pub(super) const LFM2_VL: TowerFamily = TowerFamily {
    models: &["lfm2_vl", "lfm2-vl"],
    projector: "lfm2",
    names: [&CONFIG_NAMES, &GGUF_NAMES],
    from_config,
    from_gguf,
};

/// The epsilon of the projector's norm, which no file states.
const EPSILON: f32 = 1e-5;

fn from_config(keys: &dyn Keys) -> Result<TowerShape, Defect> {
    let key = "vision_feature_layer";
    let layer = keys.float(key)?.unwrap_or(-1.0);
    if (layer + 1.0).abs() > f64::EPSILON {
        return Err(Defect::bad_value(key, layer, "only -1 is computed"));
    }
    let key = "projector_bias";
    if keys.flag(key)? == Some(false) {
        return Err(Defect::bad_value(key, false, "only true is computed"));
    }
    let plain = siglip::of_config(keys, FAMILY, siglip::SIGLIP)?;
    let key = "vision_config.num_patches";
    let side = side_of(keys, key, size_or(keys, key, 256)?)?;
    let norms = keys.flag("projector_use_layernorm")?.unwrap_or(true);
    shape(
        plain,
        side,
        norms,
        ProjectorShape {
            side: size_or(keys, "downsample_factor", 2)?,
            width: Some(size_or(keys, "projector_hidden_size", 2560)?),
            activation: activation(keys, "projector_hidden_act", Activation::Gelu)?,
            text: keys.needed("text_config.hidden_size")?,
            ..ProjectorShape::CONCATENATED
        },
    )
}

fn from_gguf(keys: &dyn Keys, sizes: TensorSizes<'_>) -> Result<TowerShape, Defect> {
    let plain = siglip::of_gguf(keys, FAMILY)?;
    // `image_size` of such a file means nothing.
    let table = "v.position_embd.weight";
    let side = side_of(keys, table, rows(sizes, table)?)?;
    let norms = keys.has_tensor("mm.input_norm.weight");
    shape(
        plain,
        side,
        norms,
        ProjectorShape {
            side: keys.needed("vision.projector.scale_factor")?,
            width: Some(rows(sizes, "mm.1.weight")?),
            activation: Activation::Gelu,
            text: keys.needed("vision.projection_dim")?,
            ..ProjectorShape::CONCATENATED
        },
    )
}

fn shape(
    plain: TowerShape,
    side: usize,
    norms: bool,
    projector: ProjectorShape,
) -> Result<TowerShape, Defect> {
    TowerShape {
        patch: PatchShape {
            channels_last: true,
            ..plain.patch
        },
        positions: Positions::Resized { side },
        projector: ProjectorShape {
            norm: norms.then_some(ProjectorNorm {
                kind: NormKind::Layer,
                epsilon: EPSILON,
                weighted: true,
                added: 0.0,
            }),
            ..projector
        },
        ..plain
    }
    .check()
}
