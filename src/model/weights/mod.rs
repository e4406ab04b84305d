//! The weights of a forward pass by name, and their storage in a file.
//!
//! `Weights<T>` is the structure for every stage: `Weights<Tensor>` has places in a checked checkpoint, and an executor
//! maps it to its own storage. Nothing here expands a weight to f32.

mod assistant;
mod attention;
mod delta_net;
mod guess_head;
mod layer;
mod layer_input;
mod linear;
mod mamba2;
mod mlp;
mod short_conv;
mod tensor;

pub use assistant::Assistant;
pub use attention::Attention;
pub use delta_net::DeltaNet;
pub use guess_head::GuessHead;
pub use layer::{Layer, Mixer};
pub use layer_input::{LayerInput, LayerInputs};
pub use linear::Linear;
pub use mamba2::Mamba2;
pub use mlp::Mlp;
pub use short_conv::ShortConv;
pub use tensor::{RowOrder, Tensor, Values};

/// Every weight of a model. `T` is a place in a file, an executor's storage, or an id on a tape.
#[derive(Clone, Debug)]
pub struct Weights<T> {
    /// (vocabulary, hidden)
    pub embedding: T,
    pub layer_inputs: Option<LayerInputs<T>>,
    pub layers: Vec<Layer<T>>,
    /// (hidden)
    pub output_norm: T,
    /// (vocabulary, hidden); `None` if the head is tied to the embedding.
    pub head: Option<T>,
}

impl<T> Weights<T> {
    /// Returns the structure with each weight replaced by `f(weight)`, in the order of a forward pass.
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Weights<U>, E> {
        Ok(Weights {
            embedding: f(&self.embedding)?,
            layer_inputs: (self.layer_inputs.as_ref())
                .map(|inputs| inputs.try_map(&mut f))
                .transpose()?,
            layers: self
                .layers
                .iter()
                .map(|layer| layer.try_map(&mut f))
                .collect::<Result<_, E>>()?,
            output_norm: f(&self.output_norm)?,
            head: self.head.as_ref().map(&mut f).transpose()?,
        })
    }
}
