//! The weights of additional inputs of layers: a small embedding of each token for each layer, as in Gemma 4.

/// What makes the additional inputs of all layers.
#[derive(Clone, Debug)]
pub struct LayerInputs<T> {
    /// (vocabulary, `layers * width`)
    pub table: T,
    /// (`layers * width`, hidden)
    pub projection: T,
    /// (width)
    pub norm: T,
}

/// `x += rmsnorm(projection (activation(gate x) * input))`
#[derive(Clone, Debug)]
pub struct LayerInput<T> {
    /// (width, hidden)
    pub gate: T,
    /// (hidden, width)
    pub projection: T,
    /// (hidden)
    pub after: T,
}

impl<T> LayerInputs<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<LayerInputs<U>, E> {
        Ok(LayerInputs {
            table: f(&self.table)?,
            projection: f(&self.projection)?,
            norm: f(&self.norm)?,
        })
    }
}

impl<T> LayerInput<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<LayerInput<U>, E> {
        Ok(LayerInput {
            gate: f(&self.gate)?,
            projection: f(&self.projection)?,
            after: f(&self.after)?,
        })
    }
}
