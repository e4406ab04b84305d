//! The weights of a vision tower by name, as `model::weights` has those of a language model.
//!
//! The position embeddings are not among them: the host computes with them.

use crate::tape::Clip;

/// Every weight of a tower that an executor holds. `T` is a place in a file, or an id on a tape.
#[derive(Clone, Debug)]
pub struct TowerWeights<T> {
    /// (hidden, elements of a patch)
    pub patch: TowerLinear<T>,
    pub blocks: Vec<TowerBlock<T>>,
    pub output_norm: Option<TowerNorm<T>>,
    /// The mergers of `DeepStack`, in order.
    pub deepstack: Vec<Merger<T>>,
    /// (hidden): the bias and the factor of averaged patches.
    pub standard: Option<[T; 2]>,
    pub projector: Merger<T>,
}

/// A norm; without a weight its weights are 1.
#[derive(Clone, Debug)]
pub struct TowerNorm<T> {
    pub weight: T,
    pub bias: Option<T>,
}

/// A linear layer.
#[derive(Clone, Debug)]
pub struct TowerLinear<T> {
    pub weight: T,
    /// (rows of weight)
    pub bias: Option<T>,
    pub clip: Option<Clip>,
}

/// A block: attention and an MLP.
#[derive(Clone, Debug)]
pub struct TowerBlock<T> {
    pub attention_norm: TowerNorm<T>,
    pub qkv: TowerQkv<T>,
    /// (head_dim)
    pub q_norm: Option<T>,
    /// (head_dim)
    pub k_norm: Option<T>,
    pub output: TowerLinear<T>,
    /// The norm of the result of attention.
    pub attention_after: Option<T>,
    pub mlp_norm: TowerNorm<T>,
    pub gate: Option<TowerLinear<T>>,
    pub up: TowerLinear<T>,
    pub down: TowerLinear<T>,
    /// The norm of the result of the MLP.
    pub mlp_after: Option<T>,
}

/// The projections of q, k and v.
#[derive(Clone, Debug)]
pub enum TowerQkv<T> {
    /// One matrix with the rows of all three.
    Joined(TowerLinear<T>),
    Apart([TowerLinear<T>; 3]),
}

/// The step from tokens to embeddings: an optional norm, and one or two products.
#[derive(Clone, Debug)]
pub struct Merger<T> {
    pub norm: Option<TowerNorm<T>>,
    pub first: TowerLinear<T>,
    pub second: Option<TowerLinear<T>>,
}

impl<T> TowerWeights<T> {
    /// Returns the structure with each weight replaced by `f(weight)`, in the order of a forward pass.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<TowerWeights<U>, E> {
        let f = &mut f;
        Ok(TowerWeights {
            patch: self.patch.try_map(f)?,
            blocks: (self.blocks.iter().map(|block| block.try_map(f))).collect::<Result<_, E>>()?,
            output_norm: optional(self.output_norm.as_ref(), |norm| norm.try_map(f))?,
            deepstack: (self.deepstack.iter())
                .map(|merger| merger.try_map(f))
                .collect::<Result<_, E>>()?,
            standard: match &self.standard {
                Some([bias, factor]) => Some([f(bias)?, f(factor)?]),
                None => None,
            },
            projector: self.projector.try_map(f)?,
        })
    }
}

impl<T> TowerNorm<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<TowerNorm<U>, E> {
        Ok(TowerNorm {
            weight: f(&self.weight)?,
            bias: optional(self.bias.as_ref(), f)?,
        })
    }
}

impl<T> TowerLinear<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<TowerLinear<U>, E> {
        Ok(TowerLinear {
            weight: f(&self.weight)?,
            bias: optional(self.bias.as_ref(), f)?,
            clip: self.clip,
        })
    }
}

impl<T> TowerBlock<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<TowerBlock<U>, E> {
        Ok(TowerBlock {
            attention_norm: self.attention_norm.try_map(f)?,
            qkv: match &self.qkv {
                TowerQkv::Joined(joined) => TowerQkv::Joined(joined.try_map(f)?),
                TowerQkv::Apart([q, k, v]) => {
                    TowerQkv::Apart([q.try_map(f)?, k.try_map(f)?, v.try_map(f)?])
                }
            },
            q_norm: optional(self.q_norm.as_ref(), &mut *f)?,
            k_norm: optional(self.k_norm.as_ref(), &mut *f)?,
            output: self.output.try_map(f)?,
            attention_after: optional(self.attention_after.as_ref(), &mut *f)?,
            mlp_norm: self.mlp_norm.try_map(f)?,
            gate: optional(self.gate.as_ref(), |gate| gate.try_map(f))?,
            up: self.up.try_map(f)?,
            down: self.down.try_map(f)?,
            mlp_after: optional(self.mlp_after.as_ref(), f)?,
        })
    }
}

impl<T> Merger<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Merger<U>, E> {
        Ok(Merger {
            norm: optional(self.norm.as_ref(), |norm| norm.try_map(f))?,
            first: self.first.try_map(f)?,
            second: optional(self.second.as_ref(), |second| second.try_map(f))?,
        })
    }
}

fn optional<'a, T, U, E>(
    one: Option<&'a T>,
    f: impl FnOnce(&'a T) -> Result<U, E>,
) -> Result<Option<U>, E> {
    one.map(f).transpose()
}
