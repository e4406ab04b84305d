//! The files of an assistant of Gemma 4: a small model that guesses the tokens of another one (`gemma4-assistant`).
//!
//! A file may have centroids, by which other programs compute some of the logits alone. They are not read: all logits are
//! computed.

use super::unread::Checkpoint;
use crate::model::error::Defect;
use crate::model::shape::{KvSource, Shape};
use crate::model::weights::Tensor;

/// The name in `general.architecture` of GGUF.
pub(super) const GGUF: &str = "gemma4-assistant";
/// The names in `model_type` of config.json.
pub(super) const MODEL_TYPES: [&str; 2] = ["gemma4_assistant", "gemma4_unified_assistant"];
/// The matrix of the input, and that of the next hidden state, in config.json's form and in GGUF.
pub(super) const BRIDGES: [[&str; 2]; 2] = [
    ["pre_projection.weight", "post_projection.weight"],
    [
        "nextn.pre_projection.weight",
        "nextn.post_projection.weight",
    ],
];

/// An assistant with checked files, whose weights are not read yet.
#[derive(Debug)]
pub struct AssistantCheckpoint {
    /// The model's part. `Shape::fit_assistant` gives its layers the layers whose cache they read.
    pub checkpoint: Checkpoint,
    /// (own hidden, `2 * hidden`)
    pub join: Tensor,
    /// (hidden, own hidden)
    pub hidden: Tensor,
    /// The hidden size of the models that it fits.
    pub model_hidden: usize,
}

/// Returns the defect of an assistant that is given as a model.
pub(super) fn refused() -> Defect {
    Defect::foreign(
        "an assistant of Gemma 4, which guesses the tokens of another model",
        "name it as draft.model, and its model as model.path",
    )
}

/// Marks the layers as those that store no K and V. The number of the layer that each reads is not known yet. No assistant has
/// additional inputs of layers, whatever its file says.
pub(super) fn as_assistant(mut shape: Shape) -> Shape {
    shape.layer_input = 0;
    for (_, attention) in shape.attention_mut() {
        attention.kv = KvSource::Layer(0);
    }
    shape
}
