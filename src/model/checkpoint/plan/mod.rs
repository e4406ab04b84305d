//! Finds every weight of a shape in a directory of tensors, and checks its dimensions.

mod layers;
mod tensors;

use super::stored::Directory;
use crate::model::architecture::Architecture;
use crate::model::error::Defect;
use crate::model::names::Names;
use crate::model::shape::{LayerShape, Shape};
use crate::model::weights::{GuessHead, Tensor, Weights};

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
            layer_inputs: (shape.layer_input > 0)
                .then(|| self.layer_inputs(prefix))
                .transpose()?,
            layers: (0..shape.layers.len())
                .map(|layer| self.layer(prefix, layer))
                .collect::<Result<_, _>>()?,
            output_norm: self.norm(output_norm, shape.hidden, shape.multipliers.logits)?,
            head,
        })
    }

    /// Returns the matrices between an assistant and its model, whose hidden size is `outer`.
    pub(super) fn bridges(&self, names: [&str; 2], outer: usize) -> Result<[Tensor; 2], Defect> {
        let ([join, hidden], own) = (names, self.shape.hidden);
        Ok([
            self.matrix(join.into(), own, outer.saturating_mul(2))?,
            self.matrix(hidden.into(), outer, own)?,
        ])
    }

    /// Returns the head that guesses tokens, with its layer, if the files have one. The model can be served without it.
    pub(super) fn guess(&self) -> Result<Option<(LayerShape, GuessHead<Tensor>)>, Defect> {
        Ok(self.shape.guess.zip(self.guess_head()?))
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
}
