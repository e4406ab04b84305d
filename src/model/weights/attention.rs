//! The weights of attention.

use super::linear::Linear;

/// Attention over the positions of a cache.
#[derive(Clone, Debug)]
pub struct Attention<T> {
    /// (hidden)
    pub norm: T,
    /// (`heads * head_dim`, hidden)
    pub q: Linear<T>,
    /// (`kv_heads * head_dim`, hidden); `None` if the layer reads the K and V of an earlier one.
    pub k: Option<Linear<T>>,
    /// (`kv_heads * head_dim`, hidden); `None` also if V is K before its norm and rotation.
    pub v: Option<Linear<T>>,
    /// (`heads * head_dim`, hidden): the result is multiplied by the sigmoid of this product (Qwen3.5)
    pub gate: Option<T>,
    /// (`head_dim`)
    pub q_norm: Option<T>,
    /// (`head_dim`)
    pub k_norm: Option<T>,
    /// (hidden, `heads * head_dim`)
    pub output: T,
    /// (hidden): a norm of the result before it is added (Gemma)
    pub after: Option<T>,
}

impl<T> Attention<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Attention<U>, E> {
        Ok(Attention {
            norm: f(&self.norm)?,
            q: self.q.try_map(f)?,
            k: self.k.as_ref().map(|k| k.try_map(f)).transpose()?,
            v: self.v.as_ref().map(|v| v.try_map(f)).transpose()?,
            gate: self.gate.as_ref().map(&mut *f).transpose()?,
            q_norm: self.q_norm.as_ref().map(&mut *f).transpose()?,
            k_norm: self.k_norm.as_ref().map(&mut *f).transpose()?,
            output: f(&self.output)?,
            after: self.after.as_ref().map(f).transpose()?,
        })
    }
}
