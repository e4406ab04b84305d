//! Finds every weight of a shape in a directory of tensors, and checks its dimensions.

use super::stored::Directory;
use crate::model::architecture::Architecture;
use crate::model::error::Defect;
use crate::model::names::Names;
use crate::model::shape::Shape;
use crate::model::weights::{Layer, Linear, RowOrder, Tensor, Values, Weights};

/// The inputs of a plan.
pub(super) struct Plan<'a> {
    pub(super) shape: &'a Shape,
    pub(super) architecture: &'static Architecture,
    pub(super) names: &'a Names,
    pub(super) directory: &'a Directory,
    /// Whether Q and K are interleaved as by GGUF's Llama converter.
    pub(super) interleaved: bool,
    /// Whether the head is the embedding; `None` if only the tensors show it.
    pub(super) tied: Option<bool>,
    /// Whether Q, K and V have a bias; `None` if only the tensors show it.
    pub(super) biased: Option<bool>,
}

impl Plan<'_> {
    /// Returns the embedding, and the head if the file has a separate one.
    pub(super) fn ends(&self) -> Result<(Tensor, Option<Tensor>), Defect> {
        let (shape, names) = (self.shape, self.names);
        let [prefix, of_head] = self.prefixes();
        let matrix = |name| self.matrix(name, shape.vocabulary, shape.hidden);
        let head = Some(format!("{of_head}{}", names.head));
        let head = head.filter(|head| self.directory.contains_key(head));
        let embedding = matrix(format!("{prefix}{}", names.embedding))?;
        Ok((embedding, head.map(matrix).transpose()?))
    }

    /// Returns the place of every weight.
    pub(super) fn weights(&self) -> Result<Weights<Tensor>, Defect> {
        let (shape, names) = (self.shape, self.names);
        let [prefix, of_head] = self.prefixes();
        let of_head = format!("{of_head}{}", names.head);
        let head = match self.tied {
            Some(true) => None,
            None if !self.directory.contains_key(&of_head) => None,
            _ => Some(self.matrix(of_head, shape.vocabulary, shape.hidden)?),
        };
        let embedding = format!("{prefix}{}", names.embedding);
        let output_norm = format!("{prefix}{}", names.output_norm);
        Ok(Weights {
            embedding: self.matrix(embedding, shape.vocabulary, shape.hidden)?,
            layers: (0..shape.layers)
                .map(|layer| self.layer(prefix, layer))
                .collect::<Result<_, _>>()?,
            output_norm: self.norm(output_norm, shape.hidden, shape.multipliers.logits)?,
            head,
        })
    }

    /// Returns the prefixes under which the embedding exists, or else the first ones.
    fn prefixes(&self) -> [&'static str; 2] {
        let is_there = |[prefix, _]: &&[&str; 2]| {
            let embedding = format!("{prefix}{}", self.names.embedding);
            self.directory.contains_key(&embedding)
        };
        let all = self.names.prefixes;
        *all.iter().find(is_there).unwrap_or(&all[0])
    }

    fn layer(&self, prefix: &str, index: usize) -> Result<Layer<Tensor>, Defect> {
        let (shape, names) = (self.shape, &self.names.layer);
        let name = |suffix: &str| format!("{prefix}{}{index}.{suffix}", self.names.layer_prefix);
        if let Some(refused) = self
            .names
            .refused
            .iter()
            .map(|suffix| name(suffix))
            .find(|name| self.directory.contains_key(name))
        {
            return Err(Defect::tensor(
                &refused,
                "the model needs it and Ganglion does not compute it",
            ));
        }
        let linear = |names: &Linear<&str>, rows, row_order| {
            let mut weight = self.matrix(name(names.weight), rows, shape.hidden)?;
            weight.row_order = row_order;
            let bias = names.bias.map(name);
            let bias = bias.filter(|bias| {
                self.architecture.biased
                    || self.biased == Some(true)
                    || self.directory.contains_key(bias)
            });
            if let Some(bias) = bias.as_ref().filter(|_| self.biased == Some(false)) {
                let problem = "is there, and config.json says that attention has no bias";
                return Err(Defect::tensor(bias, problem));
            }
            let mut bias = bias.map(|bias| self.vector(bias, rows)).transpose()?;
            if let Some(bias) = &mut bias {
                bias.row_order = row_order;
            }
            Ok::<_, Defect>(Linear { weight, bias })
        };
        let order = |heads| {
            if self.interleaved {
                RowOrder::Interleaved { heads }
            } else {
                RowOrder::Plain
            }
        };
        let norm = |suffix: &str, columns| self.norm(name(suffix), columns, 1.0);
        let optional =
            |suffix: Option<&str>, columns| suffix.map(|suffix| norm(suffix, columns)).transpose();
        let head_norm = |suffix: Option<&'static str>| {
            let suffix = suffix.filter(|_| self.architecture.head_norms);
            optional(suffix, shape.head_dim)
        };
        let (query, kv) = (shape.query_width(), shape.kv_width());
        let [q, k, v] = match self.names.joined_qkv {
            Some(joined) => {
                let parts = self.joined(name(joined), [query, kv, kv])?;
                parts.map(|weight| Linear { weight, bias: None })
            }
            None => [
                linear(&names.q, query, order(shape.heads))?,
                linear(&names.k, kv, order(shape.kv_heads))?,
                linear(&names.v, kv, RowOrder::Plain)?,
            ],
        };
        let (width, hidden) = (shape.intermediate, shape.hidden);
        let [gate, up] = match self.names.joined_mlp {
            Some(joined) => self.joined(name(joined), [width; 2])?,
            None => [
                self.matrix(name(names.gate), width, hidden)?,
                self.matrix(name(names.up), width, hidden)?,
            ],
        };
        Ok(Layer {
            attention_norm: norm(names.attention_norm, hidden)?,
            q,
            k,
            v,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm)?,
            output: self.matrix(name(names.output), hidden, query)?,
            attention_after: optional(names.attention_after, hidden)?,
            mlp_norm: norm(names.mlp_norm, hidden)?,
            gate,
            up,
            down: self.matrix(name(names.down), hidden, width)?,
            mlp_after: optional(names.mlp_after, hidden)?,
        })
    }

    /// Returns the matrices whose rows a tensor holds one after the other.
    fn joined<const N: usize>(
        &self,
        name: String,
        rows: [usize; N],
    ) -> Result<[Tensor; N], Defect> {
        let whole = self.matrix(name, rows.iter().sum(), self.shape.hidden)?;
        let mut first = 0;
        Ok(rows.map(|rows| {
            let part = Tensor {
                rows,
                offset: whole.offset + (first * whole.row_bytes()) as u64,
                ..whole.clone()
            };
            first += rows;
            part
        }))
    }

    /// Returns a norm's vector, multiplied by `factor`.
    fn norm(&self, name: String, columns: usize, factor: f32) -> Result<Tensor, Defect> {
        let values = Values {
            factor,
            added: self.names.norms_added,
        };
        Ok(Tensor {
            values,
            ..self.vector(name, columns)?
        })
    }

    /// Returns a vector, each element of which must be readable separately.
    fn vector(&self, name: String, columns: usize) -> Result<Tensor, Defect> {
        self.tensor(name, &[columns])?.separable()
    }

    fn matrix(&self, name: String, rows: usize, columns: usize) -> Result<Tensor, Defect> {
        self.tensor(name, &[rows, columns])
    }

    /// Returns the defect of a missing tensor. Quantized checkpoints have other tensors instead.
    fn lacks(&self, name: String) -> Defect {
        let stem = name.strip_suffix("weight").unwrap_or(&name);
        let others = ["qweight", "weight_packed", "weight_scale"].into_iter();
        let mut others = others.map(|end| format!("{stem}{end}"));
        match others.find(|other| self.directory.contains_key(other)) {
            Some(key) => Defect::Quantized {
                key,
                method: "a method that config.json does not name".into(),
            },
            None => Defect::MissingTensor(name),
        }
    }

    fn tensor(&self, name: String, expected: &[usize]) -> Result<Tensor, Defect> {
        let Some(stored) = self.directory.get(&name) else {
            return Err(self.lacks(name));
        };
        if stored.dimensions != expected {
            let problem = format!(
                "is {:?}; the model's shape says {expected:?}",
                stored.dimensions
            );
            return Err(Defect::tensor(&name, problem));
        }
        stored.tensor(name)
    }
}
