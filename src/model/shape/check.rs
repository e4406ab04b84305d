//! The checks of a shape: the bounds of its dimensions, and whether its layers fit together.

use super::bounds::{Size, layers, within};
use super::layer::{
    AttentionShape, DeltaNetShape, KvSource, LayerShape, Mamba2Shape, MixerShape, ShortConvShape,
};
use super::{Multipliers, Shape};
use crate::model::error::Defect;
use crate::model::rope::FREQUENCIES;
use crate::tape::KvKind;

impl Shape {
    /// Checks all dimensions. KV heads and widths of `least` 0 mean layers that the family has not described yet.
    pub(super) fn check_sizes(&self, least: usize) -> Result<(), Defect> {
        layers(self.layers.len())?;
        // A matrix has at least two rows: one row is a vector.
        let input = ("additional input of a layer", self.layer_input, 2, 1 << 12);
        [
            ("hidden size", self.hidden, 2, 1 << 16),
            ("vocabulary", self.vocabulary, 2, 1 << 22),
            ("context length", self.context, 1, 1 << 24),
        ]
        .into_iter()
        .chain((self.layer_input > 0).then_some(input))
        .try_for_each(within)?;
        for (index, layer) in self.layers.iter().enumerate() {
            self.check_layer(layer, index, least)?;
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            let allowed = "it must be a small positive number";
            return Err(Defect::bad_value(
                "norm epsilon",
                self.norm_epsilon,
                allowed,
            ));
        }
        Ok(())
    }

    fn check_layer(&self, layer: &LayerShape, index: usize, least: usize) -> Result<(), Defect> {
        match &layer.mixer {
            Some(MixerShape::Attention(attention)) => {
                self.check_attention(attention, index, least)?;
            }
            Some(MixerShape::DeltaNet(shape)) => check_delta_net(shape)?,
            Some(MixerShape::Mamba2(shape)) => check_mamba2(shape)?,
            Some(MixerShape::ShortConv(ShortConvShape { kernel })) => within(taps(*kernel))?,
            None => {}
        }
        let width = layer.mlp.map_or(2, |mlp| mlp.width);
        within(("intermediate size", width, 2 * least, 1 << 20))
    }

    fn check_attention(
        &self,
        attention: &AttentionShape,
        index: usize,
        least: usize,
    ) -> Result<(), Defect> {
        let AttentionShape {
            heads,
            kv_heads,
            head_dim,
            ..
        } = *attention;
        [
            ("attention heads", heads, 1, 1 << 10),
            ("key-value heads", kv_heads, least, 1 << 10),
            ("head dimension", head_dim, 2, 1 << 10),
        ]
        .into_iter()
        .try_for_each(within)?;
        if kv_heads > 0 && !heads.is_multiple_of(kv_heads) {
            let allowed = format!("it must divide the {heads} attention heads");
            return Err(Defect::bad_value("key-value heads", kv_heads, allowed));
        }
        if !head_dim.is_multiple_of(2) {
            return Err(Defect::bad_value(
                "head dimension",
                head_dim,
                "it must be even",
            ));
        }
        let KvSource::Layer(source) = attention.kv else {
            return Ok(());
        };
        let earlier = self.layers[..index].get(source);
        let fits = earlier.and_then(LayerShape::attention).is_some_and(|of| {
            let alike =
                (of.kv_heads, of.head_dim, of.window) == (kv_heads, head_dim, attention.window);
            of.stores() && alike
        });
        let allowed = "it must store keys and values of the same kind";
        let wrong = || {
            Defect::bad_value(
                format!("layer whose cache layer {index} reads"),
                source,
                allowed,
            )
        };
        fits.then_some(()).ok_or_else(wrong)
    }

    /// Checks that there is a layer of the cache, and that those of each kind are alike.
    pub(super) fn check_cache(&self) -> Result<(), Defect> {
        let count = self.stored().count();
        within(("layers with attention", count, 1, 1 << 10))?;
        let kinds = self.kv_kinds();
        let differs = |of: &AttentionShape| {
            let KvKind {
                heads,
                head_dim,
                window,
                ..
            } = kinds[of.kind()];
            (of.kv_heads, of.head_dim, of.window) != (heads, head_dim, window)
        };
        let Some((layer, of)) = self.stored().find(|(_, of)| differs(of)) else {
            return Ok(());
        };
        let window = of
            .window
            .map_or_else(String::new, |window| format!(" in a window of {window}"));
        Err(Defect::bad_value(
            format!("keys of layer {layer}"),
            format!("{} heads of {}{window}", of.kv_heads, of.head_dim),
            "only layers with a window may differ from those without one in the size of their cache",
        ))
    }

    pub(super) fn check_scales(&self) -> Result<(), Defect> {
        let amplitudes = self
            .angles
            .iter()
            .map(|table| ("rope amplitude", table.amplitude));
        let Multipliers {
            embedding,
            scores,
            residual,
            logits,
        } = self.multipliers;
        let scales = [
            ("embedding multiplier", Some(embedding)),
            ("attention scale", scores),
            ("residual multiplier", Some(residual)),
            ("logits' multiplier", Some(logits)),
            ("attention softcap", self.softcaps.scores),
            ("logits' softcap", self.softcaps.logits),
            ("query scale", self.query_scale.map(|scale| scale.beta)),
        ];
        let scales = scales.into_iter();
        let scales = scales.filter_map(|(key, value)| Some((key, value?)));
        for (key, value) in scales.chain(amplitudes) {
            if !(value.is_finite() && value > 0.0) {
                let allowed = "it must be positive and finite";
                return Err(Defect::bad_value(key, value, allowed));
            }
        }
        let original = self.query_scale.map_or(1, |scale| scale.original.get());
        within(("original context length", original, 1, 1 << 24))
    }

    /// Checks that every angle is finite. Pairs that do not rotate have a frequency of 0.
    pub(in crate::model) fn check_rope(&self) -> Result<(), Defect> {
        let far = self.far_angles.iter().map(|(_, far)| far);
        let mut frequencies = self
            .angles
            .iter()
            .chain(far)
            .flat_map(|table| &table.frequencies);
        match frequencies.find(|frequency| !(frequency.is_finite() && **frequency >= 0.0)) {
            Some(bad) => Err(Defect::bad_value("rope frequency", bad, FREQUENCIES)),
            None => Ok(()),
        }
    }

    /// Checks that a layer's table of angles rotates no more elements than its heads have, and that the parts of
    /// positions have all pairs.
    pub(super) fn check_tables(&self) -> Result<(), Defect> {
        if let (Some(sections), Some(table)) = (self.images.sections, self.angles.first()) {
            let pairs = table.frequencies.len();
            // A part that has more than its third of the pairs would begin in the middle.
            let counted = |part| {
                (0..pairs)
                    .filter(|pair| sections.part(*pair) == part)
                    .count()
            };
            if [0, 1, 2].map(counted) != sections.pairs {
                let allowed = format!("the parts must alternate and have all {pairs} pairs");
                let found = format!("{:?}", sections.pairs);
                return Err(Defect::bad_value("mrope_section", found, allowed));
            }
        }
        if self.images.deepstack > self.layers.len() {
            let allowed = format!("the model has {} layers", self.layers.len());
            let found = self.images.deepstack;
            return Err(Defect::bad_value("n_deepstack_layers", found, allowed));
        }
        let mut layers = self.attention();
        let wide = |attention: &AttentionShape| self.rotation(attention).dims > attention.head_dim;
        match layers.find(|(_, attention)| wide(attention)) {
            Some((_, attention)) => {
                let dims = self.rotation(attention).dims;
                let allowed = format!(
                    "it must be at most {}, the head's dimension",
                    attention.head_dim
                );
                Err(Defect::bad_value(
                    "rotated elements of a head",
                    dims,
                    allowed,
                ))
            }
            None => Ok(()),
        }
    }
}

fn taps(kernel: usize) -> Size {
    ("taps of the convolution", kernel, 2, 16)
}

fn check_delta_net(shape: &DeltaNetShape) -> Result<(), Defect> {
    let DeltaNetShape {
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        kernel,
        ..
    } = *shape;
    [
        ("linear key heads", key_heads, 1, 1 << 10),
        // A matrix has a row for each.
        ("linear value heads", value_heads, 2, 1 << 10),
        ("linear key head dimension", key_dim, 2, 1 << 10),
        ("linear value head dimension", value_dim, 2, 1 << 10),
        taps(kernel),
    ]
    .into_iter()
    .try_for_each(within)?;
    if !value_heads.is_multiple_of(key_heads) {
        let allowed = format!("it must divide the {value_heads} value heads");
        return Err(Defect::bad_value("linear key heads", key_heads, allowed));
    }
    Ok(())
}

fn check_mamba2(shape: &Mamba2Shape) -> Result<(), Defect> {
    let Mamba2Shape {
        heads,
        head_dim,
        groups,
        state,
        kernel,
    } = *shape;
    [
        // A matrix has a row for each.
        ("Mamba heads", heads, 2, 1 << 12),
        ("Mamba head dimension", head_dim, 1, 1 << 10),
        ("Mamba groups", groups, 1, 1 << 10),
        ("Mamba state size", state, 1, 1 << 10),
        taps(kernel),
    ]
    .into_iter()
    .try_for_each(within)?;
    if !heads.is_multiple_of(groups) {
        let allowed = format!("it must divide the {heads} heads");
        return Err(Defect::bad_value("Mamba groups", groups, allowed));
    }
    Ok(())
}
