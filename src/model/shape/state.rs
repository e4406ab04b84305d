//! The recurrent state of a model's layers.

use super::Shape;
use super::layer::{DeltaNetShape, Mamba2Shape, MixerShape};
use crate::tape::{HeadOrder, StateHeads, StateInfo, StatePool, UpdateRule};

impl Shape {
    /// Returns the geometry of the recurrent states of a pool; `None` if no layer is recurrent. All recurrent layers of a
    /// model are alike.
    #[must_use]
    pub fn state(&self, pool: StatePool) -> Option<StateInfo> {
        let mixers = self.layers.iter().filter_map(|layer| layer.mixer);
        let mut recurrent = mixers.filter(|mixer| !matches!(mixer, MixerShape::Attention(_)));
        let (heads, channels, taps) = match recurrent.next()? {
            MixerShape::DeltaNet(of) => (Some(delta_heads(of)), of.channels(), of.kernel),
            MixerShape::Mamba2(of) => (Some(mamba_heads(of)), of.channels(), of.kernel),
            MixerShape::ShortConv(of) => (None, self.hidden, of.kernel),
            MixerShape::Attention(_) => return None,
        };
        Some(StateInfo {
            layers: 1 + recurrent.count(),
            heads,
            channels,
            taps,
            hidden: self.guess.map_or(0, |_| self.hidden),
            pool,
        })
    }

    /// Whether layers have a recurrent state.
    #[must_use]
    pub fn is_recurrent(&self) -> bool {
        let mut mixers = self.layers.iter().filter_map(|layer| layer.mixer);
        mixers.any(|mixer| !matches!(mixer, MixerShape::Attention(_)))
    }

    /// Returns the number of a recurrent layer among those.
    #[must_use]
    pub fn state_layer(&self, layer: usize) -> usize {
        let before = self.layers[..layer].iter().filter_map(|layer| layer.mixer);
        before
            .filter(|mixer| !matches!(mixer, MixerShape::Attention(_)))
            .count()
    }
}

const fn delta_heads(shape: DeltaNetShape) -> StateHeads {
    StateHeads {
        rule: UpdateRule::Delta,
        heads: shape.value_heads,
        value_dim: shape.value_dim,
        key_heads: shape.key_heads,
        key_dim: shape.key_dim,
        order: shape.order,
    }
}

const fn mamba_heads(shape: Mamba2Shape) -> StateHeads {
    StateHeads {
        rule: UpdateRule::Additive,
        heads: shape.heads,
        value_dim: shape.head_dim,
        key_heads: shape.groups,
        key_dim: shape.state,
        order: HeadOrder::Grouped,
    }
}
