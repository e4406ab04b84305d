//! The tensors of a layer, by the kind of its mixer.

use super::Plan;
use crate::model::error::Defect;
use crate::model::names::GuessNames;
use crate::model::shape::{
    AttentionShape, DeltaNetShape, KvSource, LayerShape, Mamba2Shape, MixerShape, MlpShape,
    ShortConvShape,
};
use crate::model::weights::{
    Attention, DeltaNet, GuessHead, Layer, LayerInput, LayerInputs, Linear, Mamba2, Mixer, Mlp,
    RowOrder, ShortConv, Tensor, Values,
};

/// The problem of a tensor that no operation reads.
const UNCOMPUTED: &str = "the model needs it and Ganglion does not compute it";

/// The prefix of a layer's names.
struct Prefix(String);

impl Prefix {
    fn name(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.0)
    }
}

impl Plan<'_> {
    pub(super) fn layer(&self, prefix: &str, index: usize) -> Result<Layer<Tensor>, Defect> {
        let at = format!("{prefix}{}{index}", self.names.layer_prefix);
        self.layer_at(&Prefix(at), &self.shape.layers[index])
    }

    /// Returns the head that guesses tokens, with the first of its layers, if the files have one.
    pub(super) fn guess_head(&self) -> Result<Option<GuessHead<Tensor>>, Defect> {
        let (Some(names), Some(layer)) = (&self.names.guess, &self.shape.guess) else {
            return Ok(None);
        };
        let of_layer = self.guess_layer(names, 0);
        let at = Prefix(names.prefix.unwrap_or(&of_layer.0).to_owned());
        let is_there = |suffix: &str| self.directory.contains_key(&at.name(suffix));
        if !is_there(names.join) {
            return Ok(None);
        }
        let hidden = self.shape.hidden;
        let norm = |suffix: &str| self.norm(at.name(suffix), hidden, 1.0);
        let own = |suffix: &str| {
            let matrix = || self.matrix(at.name(suffix), self.shape.vocabulary, hidden);
            is_there(suffix).then(matrix).transpose()
        };
        Ok(Some(GuessHead {
            embedding: own(names.embedding)?,
            embedding_norm: norm(names.embedding_norm)?,
            hidden_norm: norm(names.hidden_norm)?,
            join: self.matrix(at.name(names.join), hidden, 2 * hidden)?,
            layer: self.layer_at(&of_layer, layer)?,
            output_norm: is_there(names.output_norm)
                .then(|| norm(names.output_norm))
                .transpose()?,
            head: own(names.head)?,
        }))
    }

    /// Returns how many layers of the files guess tokens.
    pub(in crate::model::checkpoint) fn guess_layers(&self) -> usize {
        let is_there = |names: &GuessNames, index| {
            let norm = self
                .guess_layer(names, index)
                .name(self.names.attention.norm);
            self.directory.contains_key(&norm)
        };
        self.names.guess.as_ref().map_or(0, |names| {
            (0..).take_while(|index| is_there(names, *index)).count()
        })
    }

    fn guess_layer(&self, names: &GuessNames, index: usize) -> Prefix {
        let after = (self.names.layer_prefix, self.shape.layers.len());
        let (prefix, first) = names.layers.map_or(after, |prefix| (prefix, 0));
        Prefix(format!("{prefix}{}", first + index))
    }

    fn layer_at(&self, at: &Prefix, shape: &LayerShape) -> Result<Layer<Tensor>, Defect> {
        let mut refused = self.names.refused.iter().map(|suffix| at.name(suffix));
        if let Some(refused) = refused.find(|name| self.directory.contains_key(name)) {
            return Err(Defect::tensor(&refused, UNCOMPUTED));
        }
        let LayerShape { mixer, mlp } = shape;
        let scale = self.names.layer_scale.map(|suffix| at.name(suffix));
        let scale = scale.filter(|scale| self.directory.contains_key(scale));
        Ok(Layer {
            mixer: (mixer.as_ref())
                .map(|mixer| self.mixer(at, mixer))
                .transpose()?,
            mlp: mlp.as_ref().map(|mlp| self.mlp(at, mlp)).transpose()?,
            input: (self.shape.layer_input > 0)
                .then(|| self.layer_input(at))
                .transpose()?,
            scale: scale.map(|scale| self.vector(scale, 1)).transpose()?,
        })
    }

    /// Returns what makes the additional inputs of layers.
    pub(super) fn layer_inputs(&self, prefix: &str) -> Result<LayerInputs<Tensor>, Defect> {
        let name = |suffix: &str| format!("{prefix}{suffix}");
        let (names, shape) = (&self.names.layer_inputs, self.shape);
        let columns = shape.layers.len() * shape.layer_input;
        Ok(LayerInputs {
            table: self.matrix(name(names.table), shape.vocabulary, columns)?,
            projection: self.matrix(name(names.projection), columns, shape.hidden)?,
            norm: self.norm(name(names.norm), shape.layer_input, 1.0)?,
        })
    }

    fn layer_input(&self, at: &Prefix) -> Result<LayerInput<Tensor>, Defect> {
        let names = &self.names.layer_input;
        let (width, hidden) = (self.shape.layer_input, self.shape.hidden);
        Ok(LayerInput {
            gate: self.matrix(at.name(names.gate), width, hidden)?,
            projection: self.matrix(at.name(names.projection), hidden, width)?,
            after: self.norm(at.name(names.after), hidden, 1.0)?,
        })
    }

    fn mixer(&self, at: &Prefix, shape: &MixerShape) -> Result<Mixer<Tensor>, Defect> {
        Ok(match shape {
            MixerShape::Attention(shape) => Mixer::Attention(self.attention(at, shape)?),
            MixerShape::DeltaNet(shape) => Mixer::DeltaNet(self.delta_net(at, shape)?),
            MixerShape::Mamba2(shape) => Mixer::Mamba2(self.mamba2(at, shape)?),
            MixerShape::ShortConv(shape) => Mixer::ShortConv(self.short_conv(at, *shape)?),
        })
    }

    fn attention(&self, at: &Prefix, shape: &AttentionShape) -> Result<Attention<Tensor>, Defect> {
        let (names, hidden) = (&self.names.attention, self.shape.hidden);
        let head_norm = |suffix: Option<&'static str>| {
            let suffix = suffix.filter(|_| self.architecture.head_norms);
            self.optional_norm(at, suffix, shape.head_dim)
        };
        let (q, k, v) = self.projections(at, shape)?;
        let gate = names.gate.filter(|_| shape.gated);
        Ok(Attention {
            norm: self.norm(at.name(names.norm), hidden, 1.0)?,
            q,
            k,
            v,
            gate: gate
                .map(|gate| self.half(at.name(gate), shape, 1))
                .transpose()?,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm.filter(|_| shape.stores()))?,
            output: self.matrix(at.name(names.output), hidden, shape.query_width())?,
            after: self.optional_norm(at, names.after, hidden)?,
        })
    }

    /// Returns the projections of q, k and v.
    fn projections(&self, at: &Prefix, shape: &AttentionShape) -> Result<Projections, Defect> {
        let (names, query, kv) = (&self.names.attention, shape.query_width(), shape.kv_width());
        if let Some(joined) = self.names.joined_qkv {
            let parts = self.joined(at.name(joined), [query, kv, kv])?;
            let [q, k, v] = parts.map(|weight| Linear { weight, bias: None });
            return Ok((q, Some(k), Some(v)));
        }
        let order = |heads| {
            if self.interleaved {
                RowOrder::Interleaved { heads }
            } else {
                RowOrder::Plain
            }
        };
        let q = if shape.gated {
            let bias = names.q.bias.map(|bias| at.name(bias));
            if let Some(bias) = bias.filter(|bias| self.directory.contains_key(bias)) {
                return Err(Defect::tensor(&bias, UNCOMPUTED));
            }
            Linear {
                weight: self.half(at.name(names.q.weight), shape, 0)?,
                bias: None,
            }
        } else {
            self.linear(at, &names.q, query, order(shape.heads))?
        };
        let side = |names: &Option<Linear<&str>>, order| {
            let side = names.as_ref();
            side.map(|names| self.linear(at, names, kv, order))
                .transpose()
        };
        let (k, v) = match shape.kv {
            KvSource::Projected => (&names.k, &names.v),
            KvSource::Keys => (&names.k, &None),
            KvSource::Layer(_) => (&None, &None),
        };
        Ok((
            q,
            side(k, order(shape.kv_heads))?,
            side(v, RowOrder::Plain)?,
        ))
    }

    /// Returns a matrix with an optional bias.
    fn linear(
        &self,
        at: &Prefix,
        names: &Linear<&str>,
        rows: usize,
        row_order: RowOrder,
    ) -> Result<Linear<Tensor>, Defect> {
        let weight = self.matrix(at.name(names.weight), rows, self.shape.hidden)?;
        let bias = names.bias.map(|suffix| at.name(suffix));
        let bias = bias.filter(|bias| {
            self.architecture.biased
                || self.biased == Some(true)
                || self.directory.contains_key(bias)
        });
        if let Some(bias) = bias.as_ref().filter(|_| self.biased == Some(false)) {
            let problem = "is there, and config.json says that attention has no bias";
            return Err(Defect::tensor(bias, problem));
        }
        let bias = bias.map(|bias| self.vector(bias, rows)).transpose()?;
        let ordered = |tensor| Tensor {
            row_order,
            ..tensor
        };
        Ok(Linear {
            weight: ordered(weight),
            bias: bias.map(ordered),
        })
    }

    /// Returns the rows of q (0), or of the gates (1): each head of q is followed by its gate.
    fn half(&self, name: String, shape: &AttentionShape, which: usize) -> Result<Tensor, Defect> {
        let (rows, length) = (shape.query_width(), shape.head_dim);
        Ok(Tensor {
            rows,
            row_order: RowOrder::Blocks {
                length,
                stride: 2 * length,
                first: which * length,
            },
            ..self.matrix(name, 2 * rows, self.shape.hidden)?
        })
    }

    fn delta_net(&self, at: &Prefix, shape: &DeltaNetShape) -> Result<DeltaNet<Tensor>, Defect> {
        let (names, hidden) = (&self.names.delta_net, self.shape.hidden);
        let DeltaNetShape {
            value_heads,
            value_dim,
            kernel,
            ..
        } = *shape;
        let (channels, width) = (shape.channels(), shape.value_width());
        let matrix = |suffix, rows| self.matrix(at.name(suffix), rows, hidden);
        Ok(DeltaNet {
            norm: self.norm(at.name(names.norm), hidden, 1.0)?,
            qkv: matrix(names.qkv, channels)?,
            z: matrix(names.z, width)?,
            a: matrix(names.a, value_heads)?,
            b: matrix(names.b, value_heads)?,
            conv: self.flat(at.name(names.conv), &[channels, kernel])?,
            step_bias: self.flat(at.name(names.step_bias), &[value_heads])?,
            decay: self.decay(at.name(names.decay), value_heads)?,
            result_norm: self.flat(at.name(names.result_norm), &[value_dim])?,
            output: self.matrix(at.name(names.output), hidden, width)?,
        })
    }

    fn mamba2(&self, at: &Prefix, shape: &Mamba2Shape) -> Result<Mamba2<Tensor>, Defect> {
        let (names, hidden) = (&self.names.mamba2, self.shape.hidden);
        let Mamba2Shape {
            heads,
            groups,
            kernel,
            ..
        } = *shape;
        let (channels, inner) = (shape.channels(), shape.inner());
        let flat = |suffix, dimensions: &[usize]| self.flat(at.name(suffix), dimensions);
        let [gate, input, step] = self.joined(at.name(names.input), [inner, channels, heads])?;
        // GGUF files have a row for each group.
        let grouped = [groups, inner / groups];
        let norm = at.name(names.result_norm);
        let has_rows =
            (self.directory.get(&norm)).is_some_and(|stored| stored.dimensions == grouped);
        let of_norm = if has_rows { &grouped[..] } else { &[inner] };
        Ok(Mamba2 {
            norm: self.norm(at.name(names.norm), hidden, 1.0)?,
            gate,
            input,
            step,
            conv: flat(names.conv, &[channels, kernel])?,
            conv_bias: flat(names.conv_bias, &[channels])?,
            step_bias: flat(names.step_bias, &[heads])?,
            decay: self.decay(at.name(names.decay), heads)?,
            skip: flat(names.skip, &[heads])?,
            result_norm: self.flat(norm, of_norm)?,
            output: self.matrix(at.name(names.output), hidden, inner)?,
        })
    }

    fn short_conv(&self, at: &Prefix, shape: ShortConvShape) -> Result<ShortConv<Tensor>, Defect> {
        let (names, hidden) = (&self.names.short_conv, self.shape.hidden);
        Ok(ShortConv {
            norm: self.norm(at.name(names.norm), hidden, 1.0)?,
            input: self.matrix(at.name(names.input), 3 * hidden, hidden)?,
            conv: self.flat(at.name(names.conv), &[hidden, shape.kernel])?,
            output: self.matrix(at.name(names.output), hidden, hidden)?,
        })
    }

    fn mlp(&self, at: &Prefix, shape: &MlpShape) -> Result<Mlp<Tensor>, Defect> {
        let (names, hidden) = (&self.names.mlp, self.shape.hidden);
        let MlpShape { width, gated } = *shape;
        let matrix = |suffix: &str| self.matrix(at.name(suffix), width, hidden);
        let (gate, up) = match self.names.joined_mlp {
            Some(joined) => {
                let [gate, up] = self.joined(at.name(joined), [width; 2])?;
                (Some(gate), up)
            }
            None => (
                names.gate.filter(|_| gated).map(matrix).transpose()?,
                matrix(names.up)?,
            ),
        };
        Ok(Mlp {
            norm: self.norm(at.name(names.norm), hidden, 1.0)?,
            gate,
            up,
            down: self.matrix(at.name(names.down), hidden, width)?,
            after: self.optional_norm(at, names.after, hidden)?,
        })
    }

    /// Returns the factor of a step in the logarithm of the decay, -exp(A). GGUF files store it, and others store A.
    fn decay(&self, name: String, heads: usize) -> Result<Tensor, Defect> {
        let values = Values {
            exponential: self.names.logarithms,
            factor: if self.names.logarithms { -1.0 } else { 1.0 },
            ..Values::default()
        };
        Ok(Tensor {
            values,
            ..self.flat(name, &[heads])?
        })
    }

    fn optional_norm(
        &self,
        at: &Prefix,
        suffix: Option<&str>,
        columns: usize,
    ) -> Result<Option<Tensor>, Defect> {
        suffix
            .map(|suffix| self.norm(at.name(suffix), columns, 1.0))
            .transpose()
    }
}

/// The projections of q, k and v.
type Projections = (
    Linear<Tensor>,
    Option<Linear<Tensor>>,
    Option<Linear<Tensor>>,
);
