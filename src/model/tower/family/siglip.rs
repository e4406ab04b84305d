//! The parts of shapes that SigLIP towers share: layer norms with biases, the tanh approximation of GELU, no rotation,
//! and a norm after the last block.

use super::tower_family::{
    activation, float_or, gelu_of_gguf, head_dim, only, size_or, usual_scale,
};
use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::shape::{
    CHANNELS, PatchShape, Positions, ProjectorShape, TowerMlp, TowerShape,
};
use crate::tape::{Activation, NormKind};

/// The defaults of a config.json: hidden size, width, blocks, heads, and the size of a patch.
pub(super) type Defaults = [usize; 5];

/// SigLIP and SigLIP 2.
pub(super) const SIGLIP: Defaults = [768, 3072, 12, 12, 16];

/// A tower without positions and projector.
pub(super) fn of_config(
    keys: &dyn Keys,
    family: &'static str,
    defaults: Defaults,
) -> Result<TowerShape, Defect> {
    let [hidden, width, blocks, heads, size] = defaults;
    let of = |key: &str, default| size_or(keys, &format!("vision_config.{key}"), default);
    only(keys, "vision_config.num_channels", CHANNELS)?;
    let (hidden, heads) = (
        of("hidden_size", hidden)?,
        of("num_attention_heads", heads)?,
    );
    let activation = activation(keys, "vision_config.hidden_act", Activation::GeluTanh)?;
    Ok(TowerShape {
        patch: patch(of("patch_size", size)?),
        blocks: of("num_hidden_layers", blocks)?,
        mlp: TowerMlp {
            width: of("intermediate_size", width)?,
            gated: false,
            activation,
        },
        epsilon: float_or(keys, "vision_config.layer_norm_eps", 1e-6)?,
        ..plain(family, hidden, heads)?
    })
}

/// A tower without positions and projector.
pub(super) fn of_gguf(keys: &dyn Keys, family: &'static str) -> Result<TowerShape, Defect> {
    let epsilon = "vision.attention.layer_norm_epsilon";
    let Some(found) = keys.float(epsilon)? else {
        return Err(keys.missing(epsilon));
    };
    let (hidden, heads) = (
        keys.needed("vision.embedding_length")?,
        keys.needed("vision.attention.head_count")?,
    );
    Ok(TowerShape {
        patch: patch(keys.needed("vision.patch_size")?),
        blocks: keys.needed("vision.block_count")?,
        mlp: TowerMlp {
            width: keys.needed("vision.feed_forward_length")?,
            gated: false,
            activation: gelu_of_gguf(keys)?,
        },
        #[allow(clippy::cast_possible_truncation)] // it was written as f32
        epsilon: found as f32,
        ..plain(family, hidden, heads)?
    })
}

fn patch(size: usize) -> PatchShape {
    PatchShape {
        size,
        frames: 1,
        channels_last: false,
        in_blocks: false,
        recentered: false,
    }
}

fn plain(family: &'static str, hidden: usize, heads: usize) -> Result<TowerShape, Defect> {
    let head_dim = head_dim(hidden, heads)?;
    Ok(TowerShape {
        family,
        patch: patch(0),
        hidden,
        blocks: 0,
        heads,
        head_dim,
        scale: usual_scale(head_dim),
        mlp: TowerMlp {
            width: 0,
            gated: false,
            activation: Activation::GeluTanh,
        },
        norm: NormKind::Layer,
        epsilon: 0.0,
        norms_results: false,
        norms_heads: false,
        positions: Positions::Fixed { side: 0 },
        rotation: None,
        norms_output: true,
        deepstack: Vec::new(),
        projector: ProjectorShape::CONCATENATED,
    })
}
