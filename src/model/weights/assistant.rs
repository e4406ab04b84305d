//! The weights of an assistant: a small model that guesses tokens and reads the keys and values of another one, as Gemma 4's.

use super::Weights;

/// An assistant. The layers have no K and V of their own.
///
/// Its input is `join [embedding of the token | hidden state]`, both of the other model: the embedding as it begins the
/// residual stream there, and the hidden state after the output norm. `hidden` times its own hidden state, after its output
/// norm, is the hidden state of the next pass.
#[derive(Clone, Debug)]
pub struct Assistant<T> {
    /// (own hidden, `2 * hidden`)
    pub join: T,
    /// The embedding serves for logits alone.
    pub weights: Weights<T>,
    /// (hidden, own hidden)
    pub hidden: T,
}

impl<T> Assistant<T> {
    /// Returns the structure with each weight replaced by `f(weight)`, in the order of a pass.
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Assistant<U>, E> {
        Ok(Assistant {
            join: f(&self.join)?,
            weights: self.weights.try_map(&mut f)?,
            hidden: f(&self.hidden)?,
        })
    }
}
