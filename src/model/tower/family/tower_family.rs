//! A family of vision towers as data, and the keys that families share.

use crate::model::architecture::Keys;
use crate::model::error::Defect;
use crate::model::tower::names::TowerNames;
use crate::model::tower::shape::TowerShape;
use crate::tape::Activation;

/// The dimensions of a file's tensors, outermost first, by name.
pub(in crate::model) type TensorSizes<'a> = &'a dyn Fn(&str) -> Option<Vec<usize>>;

/// A family of vision towers.
#[derive(Debug)]
pub(in crate::model) struct TowerFamily {
    /// The names in `model_type` of config.json.
    pub(in crate::model) models: &'static [&'static str],
    /// The name in `clip.projector_type` of GGUF.
    pub(in crate::model) projector: &'static str,
    /// The names of tensors in Hugging Face's files, and in GGUF files.
    pub(in crate::model) names: [&'static TowerNames; 2],
    /// Reads the shape from a config.json. Keys of its parts begin with "vision_config." or "text_config.".
    pub(in crate::model) from_config: fn(&dyn Keys) -> Result<TowerShape, Defect>,
    /// Reads the shape from a GGUF file's keys, which begin with "clip.".
    pub(in crate::model) from_gguf: fn(&dyn Keys, TensorSizes<'_>) -> Result<TowerShape, Defect>,
}

/// Returns a size, or its default if the file leaves it out.
pub(super) fn size_or(keys: &dyn Keys, key: &str, default: usize) -> Result<usize, Defect> {
    Ok(keys.size(key)?.unwrap_or(default))
}

/// Returns a number, or its default if the file leaves it out.
#[allow(clippy::cast_possible_truncation)] // float32 is the reference
pub(super) fn float_or(keys: &dyn Keys, key: &str, default: f64) -> Result<f32, Defect> {
    Ok(keys.float(key)?.unwrap_or(default) as f32)
}

/// Returns the activation of a key; `default` if the file leaves it out.
pub(super) fn activation(
    keys: &dyn Keys,
    key: &str,
    default: Activation,
) -> Result<Activation, Defect> {
    match keys.word(key)?.as_deref() {
        None => Ok(default),
        Some("gelu_pytorch_tanh" | "gelu_new") => Ok(Activation::GeluTanh),
        Some("gelu") => Ok(Activation::Gelu),
        Some("silu" | "swish") => Ok(Activation::Silu),
        Some(other) => Err(Defect::bad_value(
            keys.named(key),
            other,
            "vision towers have gelu_pytorch_tanh, gelu or silu",
        )),
    }
}

/// Returns the activation of a GGUF file's MLPs: the tanh approximation of GELU, which `clip.use_gelu` means.
pub(super) fn gelu_of_gguf(keys: &dyn Keys) -> Result<Activation, Defect> {
    if keys.flag("use_gelu")? == Some(true) {
        return Ok(Activation::GeluTanh);
    }
    let stated = if keys.flag("use_silu")? == Some(true) {
        "use_silu"
    } else {
        "none"
    };
    Err(Defect::bad_value(
        "activation",
        stated,
        "a tower of this type has clip.use_gelu = true; take a newer conversion of it",
    ))
}

/// Refuses a key with another value than `computed`.
pub(super) fn only(keys: &dyn Keys, key: &str, computed: usize) -> Result<(), Defect> {
    match keys.size(key)? {
        Some(other) if other != computed => Err(Defect::bad_value(
            keys.named(key),
            other,
            format!("only {computed} is computed"),
        )),
        _ => Ok(()),
    }
}

/// Returns the side of a square of `count` elements.
pub(super) fn side_of(keys: &dyn Keys, key: &str, count: usize) -> Result<usize, Defect> {
    let side = count.isqrt();
    if side > 0 && side * side == count {
        return Ok(side);
    }
    let allowed = "it must be the square of a whole number";
    Err(Defect::bad_value(keys.named(key), count, allowed))
}

/// Returns `1 / sqrt(head_dim)`, the usual factor of products of q and k.
#[allow(clippy::cast_precision_loss)] // heads are far narrower than 2^24
pub(super) fn usual_scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}

/// Returns the size of a head of a tower whose heads divide the hidden size.
pub(super) fn head_dim(hidden: usize, heads: usize) -> Result<usize, Defect> {
    if heads > 0 && hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    let allowed = format!("they must divide the hidden size of {hidden}");
    Err(Defect::bad_value(
        "vision tower: attention heads",
        heads,
        allowed,
    ))
}

/// Returns the rows of a tensor that the shape follows from.
pub(super) fn rows(sizes: TensorSizes<'_>, name: &str) -> Result<usize, Defect> {
    let missing = || Defect::MissingTensor(name.into());
    let found = sizes(name).ok_or_else(missing)?;
    Ok(found.first().copied().unwrap_or(0))
}
