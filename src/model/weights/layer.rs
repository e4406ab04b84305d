//! The weights of a layer: what mixes positions, and what transforms each of them.

use super::attention::Attention;
use super::delta_net::DeltaNet;
use super::layer_input::LayerInput;
use super::mamba2::Mamba2;
use super::mlp::Mlp;
use super::short_conv::ShortConv;

/// One layer. Most models have a mixer and an MLP in each, and Nemotron-H has one of both.
#[derive(Clone, Debug)]
pub struct Layer<T> {
    pub mixer: Option<Mixer<T>>,
    pub mlp: Option<Mlp<T>>,
    /// An additional input, after the MLP.
    pub input: Option<LayerInput<T>>,
    /// (1): the factor of the residual stream after the layer (Gemma 4)
    pub scale: Option<T>,
}

/// The part of a layer in which a position reads earlier ones.
#[derive(Clone, Debug)]
pub enum Mixer<T> {
    Attention(Attention<T>),
    DeltaNet(DeltaNet<T>),
    Mamba2(Mamba2<T>),
    ShortConv(ShortConv<T>),
}

impl<T> Layer<T> {
    /// Returns the weights of attention, if the layer has it.
    #[must_use]
    pub fn attention(&self) -> Option<&Attention<T>> {
        match &self.mixer {
            Some(Mixer::Attention(attention)) => Some(attention),
            _ => None,
        }
    }

    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Layer<U>, E> {
        Ok(Layer {
            mixer: (self.mixer.as_ref())
                .map(|mixer| mixer.try_map(f))
                .transpose()?,
            mlp: self.mlp.as_ref().map(|mlp| mlp.try_map(f)).transpose()?,
            input: (self.input.as_ref())
                .map(|input| input.try_map(f))
                .transpose()?,
            scale: self.scale.as_ref().map(f).transpose()?,
        })
    }
}

impl<T> Mixer<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Mixer<U>, E> {
        Ok(match self {
            Self::Attention(mixer) => Mixer::Attention(mixer.try_map(f)?),
            Self::DeltaNet(mixer) => Mixer::DeltaNet(mixer.try_map(f)?),
            Self::Mamba2(mixer) => Mixer::Mamba2(mixer.try_map(f)?),
            Self::ShortConv(mixer) => Mixer::ShortConv(mixer.try_map(f)?),
        })
    }
}
