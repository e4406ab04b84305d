//! Finds every weight of a tower in a directory of tensors, checks its dimensions, and refuses tensors without a use.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::arranged::TowerTensor;
use crate::model::checkpoint::files::ModelFile;
use crate::model::checkpoint::read_buffer::ReadBuffer;
use crate::model::checkpoint::stored::{Directory, Stored};
use crate::model::error::Defect;
use crate::model::tower::names::TowerNames;
use crate::model::tower::shape::{CHANNELS, PatchShape, Positions, Reduction, TowerShape};
use crate::model::tower::weights::{
    Merger, TowerBlock, TowerLinear, TowerNorm, TowerQkv, TowerWeights,
};
use crate::model::weights::{Tensor, Values};
use crate::tape::Clip;

/// The bounds of a clipped linear layer in a file, in the order of `Clip`.
const BOUNDS: [&str; 4] = ["input_min", "input_max", "output_min", "output_max"];

/// The inputs of a plan, and the tensors that have a use.
pub(super) struct TowerPlan<'a> {
    shape: &'a TowerShape,
    names: &'a TowerNames,
    directory: &'a Directory,
    files: &'a [ModelFile],
    /// The prefixes of the tower's and of the projector's names.
    roots: [&'static str; 2],
    /// The prefixes of other parts of the model that share a prefix.
    others: &'a [&'a str],
    used: RefCell<BTreeSet<String>>,
}

impl<'a> TowerPlan<'a> {
    pub(super) fn new(
        shape: &'a TowerShape,
        names: &'a TowerNames,
        (directory, files): (&'a Directory, &'a [ModelFile]),
        others: &'a [&'a str],
    ) -> Self {
        let is_there = |[tower, _]: &&[&str; 2]| {
            let patch = format!("{tower}{}", names.patch.weight);
            directory.contains_key(&patch)
        };
        let all = names.roots;
        Self {
            shape,
            names,
            directory,
            files,
            roots: *all.iter().find(is_there).unwrap_or(&all[0]),
            others,
            used: RefCell::default(),
        }
    }

    /// Returns the place of every weight, and of the position embeddings.
    pub(super) fn find(&self) -> Result<(TowerWeights<TowerTensor>, Tensor), Defect> {
        let (shape, names) = (self.shape, self.names);
        let [root, of_projector] = self.roots;
        let blocks = (0..shape.blocks).map(|index| {
            let at = format!("{root}{}{index}.", names.block_prefix);
            self.block(&at)
        });
        let deepstack = shape.deepstack.iter().enumerate().map(|(number, block)| {
            let number = if names.deepstack_by_block {
                *block
            } else {
                number
            };
            let at = format!("{root}{}{number}.", names.deepstack_prefix);
            self.merger(&at, &names.deepstack, Some(0.0))
        });
        let standard = matches!(
            shape.projector.reduction,
            Reduction::Averaged {
                standardized: true,
                ..
            }
        );
        let norm = shape.projector.norm.filter(|norm| norm.weighted);
        let added = norm.map(|norm| norm.added);
        let weights = TowerWeights {
            patch: TowerLinear {
                weight: self.patch()?,
                bias: self.bias(root, names.patch.bias, shape.hidden)?,
                clip: None,
            },
            blocks: blocks.collect::<Result<_, _>>()?,
            output_norm: shape
                .norms_output
                .then(|| self.norm(root, &names.output_norm, shape.hidden))
                .transpose()?,
            deepstack: deepstack.collect::<Result<_, _>>()?,
            standard: if standard {
                let [bias, factor] = names.standard;
                let of = |name| self.vector(format!("{root}{name}"), shape.hidden);
                Some([of(bias)?, of(factor)?])
            } else {
                None
            },
            projector: self.merger(of_projector, &names.projector, added)?,
        };
        let positions = self.positions()?;
        self.refuse_unused()?;
        Ok((weights, positions))
    }

    /// Refuses tensors of the tower that the plan has not used.
    fn refuse_unused(&self) -> Result<(), Defect> {
        let used = self.used.borrow();
        let begins =
            |name: &str, prefixes: &[&str]| prefixes.iter().any(|one| name.starts_with(one));
        let is_known = |name: &str| {
            let root = self.roots.iter().find_map(|root| name.strip_prefix(root));
            root.is_none_or(|rest| begins(rest, self.names.unused)) || begins(name, self.others)
        };
        let mut names: Vec<_> = self.directory.keys().collect();
        names.sort_unstable();
        match names
            .into_iter()
            .find(|name| !used.contains(*name) && !is_known(name))
        {
            Some(name) => Err(Defect::tensor(
                name,
                "belongs to the vision tower, and Ganglion does not compute it",
            )),
            None => Ok(()),
        }
    }

    fn block(&self, at: &str) -> Result<TowerBlock<TowerTensor>, Defect> {
        let (shape, names) = (self.shape, &self.names.block);
        let (hidden, width) = (shape.hidden, shape.attention_width());
        let mlp = shape.mlp.width;
        let linear =
            |names: &TowerLinear<&str>, rows, columns| self.linear(at, names, rows, columns);
        let of_head = |name: Option<&str>| {
            let name = name.filter(|_| shape.norms_heads);
            name.map(|name| self.vector(format!("{at}{name}"), shape.head_dim))
                .transpose()
        };
        let after = |name: Option<&str>| {
            let name = name.filter(|_| shape.norms_results);
            name.map(|name| self.vector(format!("{at}{name}"), hidden))
                .transpose()
        };
        let gate = names.gate.as_ref().filter(|_| shape.mlp.gated);
        Ok(TowerBlock {
            attention_norm: self.norm(at, &names.attention_norm, hidden)?,
            qkv: match &names.qkv {
                TowerQkv::Joined(joined) => TowerQkv::Joined(linear(joined, 3 * width, hidden)?),
                TowerQkv::Apart([q, k, v]) => TowerQkv::Apart([
                    linear(q, width, hidden)?,
                    linear(k, width, hidden)?,
                    linear(v, width, hidden)?,
                ]),
            },
            q_norm: of_head(names.q_norm)?,
            k_norm: of_head(names.k_norm)?,
            output: linear(&names.output, hidden, width)?,
            attention_after: after(names.attention_after)?,
            mlp_norm: self.norm(at, &names.mlp_norm, hidden)?,
            gate: gate.map(|gate| linear(gate, mlp, hidden)).transpose()?,
            up: linear(&names.up, mlp, hidden)?,
            down: linear(&names.down, hidden, mlp)?,
            mlp_after: after(names.mlp_after)?,
        })
    }

    /// Returns a merger. `added` is added to the weights of its norm, if it has one.
    fn merger(
        &self,
        at: &str,
        names: &Merger<&str>,
        added: Option<f32>,
    ) -> Result<Merger<TowerTensor>, Defect> {
        let (input, text) = (self.shape.token_width(), self.shape.projector.text);
        let norm = names.norm.as_ref().zip(added).map(|(norm, added)| {
            let mut found = self.norm(at, norm, input)?;
            found.weight.tensor.values = Values {
                added,
                ..Values::default()
            };
            Ok::<_, Defect>(found)
        });
        let width = (names.second.as_ref()).and(self.shape.projector.width);
        let width = width.unwrap_or(text);
        let first = if self.names.transposed {
            let stored = self.matrix(format!("{at}{}", names.first.weight), input, width)?;
            TowerLinear {
                weight: TowerTensor::transposed(stored)?,
                bias: None,
                clip: None,
            }
        } else {
            self.linear(at, &names.first, width, input)?
        };
        Ok(Merger {
            norm: norm.transpose()?,
            first,
            second: (names.second.as_ref())
                .map(|second| self.linear(at, second, text, width))
                .transpose()?,
        })
    }

    /// Returns a linear layer, with its bounds if the file has any.
    fn linear(
        &self,
        at: &str,
        names: &TowerLinear<&str>,
        rows: usize,
        columns: usize,
    ) -> Result<TowerLinear<TowerTensor>, Defect> {
        let name = format!("{at}{}", names.weight);
        Ok(TowerLinear {
            clip: self.clip(&name)?,
            weight: TowerTensor::stored(self.matrix(name, rows, columns)?),
            bias: self.bias(at, names.bias, rows)?,
        })
    }

    fn bias(
        &self,
        at: &str,
        name: Option<&str>,
        rows: usize,
    ) -> Result<Option<TowerTensor>, Defect> {
        name.map(|name| self.vector(format!("{at}{name}"), rows))
            .transpose()
    }

    /// Reads the bounds of a linear layer, whose names follow that of its weight. Missing ones are infinite.
    fn clip(&self, weight: &str) -> Result<Option<Clip>, Defect> {
        let stem = weight.strip_suffix("linear.weight");
        let stem = stem.or_else(|| weight.strip_suffix("weight"));
        let stem = stem.unwrap_or(weight);
        let mut found = false;
        let mut bounds = [
            f32::NEG_INFINITY,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::INFINITY,
        ];
        for (bound, end) in bounds.iter_mut().zip(BOUNDS) {
            let name = format!("{stem}{end}");
            if !self.directory.contains_key(&name) {
                continue;
            }
            let tensor = self.flat(name.clone(), &[1])?;
            let values = self.files[tensor.file].vector(&tensor, &mut ReadBuffer::default())?;
            *bound = values.first().copied().unwrap_or(f32::NAN);
            if bound.is_nan() {
                return Err(Defect::tensor(&name, "is not a number"));
            }
            found = true;
        }
        let [least, greatest, least_output, greatest_output] = bounds;
        Ok(found.then_some(Clip {
            input: [least, greatest],
            output: [least_output, greatest_output],
        }))
    }

    fn norm(
        &self,
        at: &str,
        names: &TowerNorm<&str>,
        columns: usize,
    ) -> Result<TowerNorm<TowerTensor>, Defect> {
        Ok(TowerNorm {
            weight: self.vector(format!("{at}{}", names.weight), columns)?,
            bias: self.bias(at, names.bias, columns)?,
        })
    }

    /// Returns the first product, whose rows are patches of one picture in the order of the pixels.
    fn patch(&self) -> Result<TowerTensor, Defect> {
        let PatchShape {
            size,
            frames,
            channels_last,
            ..
        } = self.shape.patch;
        let names = self.names;
        let name = format!("{}{}", self.roots[0], names.patch.weight);
        let (hidden, pixels) = (self.shape.hidden, size * size);
        if let Some(second) = names.second_frame {
            let second = format!("{}{second}", self.roots[0]);
            let of = |name| self.flat_rows(name, hidden, CHANNELS * pixels);
            return TowerTensor::two_frames([of(name)?, of(second)?]);
        }
        let stored = self.flat_rows(name, hidden, frames * CHANNELS * pixels)?;
        match (frames, channels_last && names.channels_first) {
            (2, _) => TowerTensor::frames_within(stored, CHANNELS),
            (_, true) => TowerTensor::channels_last(stored, CHANNELS),
            (_, false) => Ok(TowerTensor::stored(stored)),
        }
    }

    /// Returns the position embeddings, (positions, hidden).
    fn positions(&self) -> Result<Tensor, Defect> {
        let name = format!("{}{}", self.roots[0], self.names.positions);
        let hidden = self.shape.hidden;
        let dimensions = match self.shape.positions {
            Positions::Fixed { side }
            | Positions::Stretched { side }
            | Positions::Resized { side } => vec![side * side, hidden],
            Positions::Axes { length } => vec![2, length, hidden],
        };
        let stored = self.stored(&name)?;
        if stored.dimensions != dimensions {
            return Err(unfit(&name, &stored.dimensions, &dimensions));
        }
        Ok(Tensor {
            rows: dimensions.iter().product::<usize>() / hidden,
            columns: hidden,
            ..stored.tensor(name)?
        })
    }

    /// Returns a vector, each element of which can be read separately.
    fn vector(&self, name: String, columns: usize) -> Result<TowerTensor, Defect> {
        self.flat(name, &[columns]).map(TowerTensor::stored)
    }

    /// Returns a vector. A file may leave out a dimension of 1.
    fn flat(&self, name: String, dimensions: &[usize]) -> Result<Tensor, Defect> {
        let stored = self.stored(&name)?;
        let fits =
            stored.dimensions == dimensions || (stored.dimensions.is_empty() && dimensions == [1]);
        if !fits {
            return Err(unfit(&name, &stored.dimensions, dimensions));
        }
        stored.tensor(name)?.separable()
    }

    fn matrix(&self, name: String, rows: usize, columns: usize) -> Result<Tensor, Defect> {
        let stored = self.stored(&name)?;
        if stored.dimensions != [rows, columns] {
            return Err(unfit(&name, &stored.dimensions, &[rows, columns]));
        }
        stored.tensor(name)
    }

    /// Returns a matrix whose rows may have several dimensions in the file.
    fn flat_rows(&self, name: String, rows: usize, columns: usize) -> Result<Tensor, Defect> {
        let stored = self.stored(&name)?;
        let (first, rest) = stored.dimensions.split_first().unwrap_or((&0, &[]));
        if (*first, rest.iter().product::<usize>()) != (rows, columns) {
            return Err(unfit(&name, &stored.dimensions, &[rows, columns]));
        }
        Ok(Tensor {
            rows,
            columns,
            ..stored.tensor(name)?
        })
    }

    /// Returns a tensor of the file, which then has its use.
    fn stored(&self, name: &str) -> Result<&Stored, Defect> {
        let missing = || Defect::MissingTensor(name.to_owned());
        let stored = self.directory.get(name).ok_or_else(missing)?;
        if !self.used.borrow_mut().insert(name.to_owned()) {
            return Err(Defect::tensor(name, "has two uses in this tower"));
        }
        Ok(stored)
    }
}

fn unfit(name: &str, found: &[usize], expected: &[usize]) -> Defect {
    let problem = format!("is {found:?}; the tower's shape says {expected:?}");
    Defect::tensor(name, problem)
}
