//! The weights of a multilayer perceptron.

/// `down (activation(gate x) * (up x))`, or `down activation(up x)` without a gate.
#[derive(Clone, Debug)]
pub struct Mlp<T> {
    /// (hidden)
    pub norm: T,
    /// (width, hidden)
    pub gate: Option<T>,
    /// (width, hidden)
    pub up: T,
    /// (hidden, width)
    pub down: T,
    /// (hidden): a norm of the result before it is added (Gemma)
    pub after: Option<T>,
}

impl<T> Mlp<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Mlp<U>, E> {
        Ok(Mlp {
            norm: f(&self.norm)?,
            gate: self.gate.as_ref().map(&mut *f).transpose()?,
            up: f(&self.up)?,
            down: f(&self.down)?,
            after: self.after.as_ref().map(f).transpose()?,
        })
    }
}
