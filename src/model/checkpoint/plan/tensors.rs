//! Looks up tensors by name, and checks their dimensions.

use super::Plan;
use crate::model::error::Defect;
use crate::model::weights::{Tensor, Values};

impl Plan<'_> {
    /// Returns the matrices whose rows a tensor holds one after the other.
    pub(super) fn joined<const N: usize>(
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
    pub(super) fn norm(&self, name: String, columns: usize, factor: f32) -> Result<Tensor, Defect> {
        let values = Values {
            factor,
            added: self.names.norms_added,
            ..Values::default()
        };
        Ok(Tensor {
            values,
            ..self.vector(name, columns)?
        })
    }

    /// Returns a tensor of small dimensions as a vector of its elements, in the order of the file. Files may add
    /// dimensions of 1.
    pub(super) fn flat(&self, name: String, dimensions: &[usize]) -> Result<Tensor, Defect> {
        let Some(stored) = self.directory.get(&name) else {
            return Err(self.lacks(name));
        };
        let wide = |dimensions: &[usize]| {
            let dimensions = dimensions.iter().copied();
            dimensions.filter(|size| *size > 1).collect::<Vec<_>>()
        };
        if wide(&stored.dimensions) != wide(dimensions) {
            return Err(unfit(&name, &stored.dimensions, dimensions));
        }
        Tensor {
            rows: 1,
            columns: dimensions.iter().product(),
            ..stored.tensor(name)?
        }
        .separable()
    }

    /// Returns a vector, each element of which must be readable separately.
    pub(super) fn vector(&self, name: String, columns: usize) -> Result<Tensor, Defect> {
        self.tensor(name, &[columns])?.separable()
    }

    pub(super) fn matrix(
        &self,
        name: String,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, Defect> {
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
            return Err(unfit(&name, &stored.dimensions, expected));
        }
        stored.tensor(name)
    }
}

fn unfit(name: &str, found: &[usize], expected: &[usize]) -> Defect {
    let problem = format!("is {found:?}; the model's shape says {expected:?}");
    Defect::tensor(name, problem)
}
