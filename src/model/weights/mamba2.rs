//! The weights of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), as in Granite 4 and Nemotron-H.

/// Mamba-2. The channels of its convolution are x of all heads, then B and C of all groups.
#[derive(Clone, Debug)]
pub struct Mamba2<T> {
    /// (hidden)
    pub norm: T,
    /// (inner, hidden): the gate of the result
    pub gate: T,
    /// (channels, hidden)
    pub input: T,
    /// (heads, hidden): the step of the decay, before its bias and softplus
    pub step: T,
    /// (`channels * kernel`): the taps of each channel; the last one meets the current position
    pub conv: T,
    /// (channels)
    pub conv_bias: T,
    /// (heads)
    pub step_bias: T,
    /// (heads): -exp(A), the factor of the step in the logarithm of the decay
    pub decay: T,
    /// (heads): D, the factor of x that is added to the result
    pub skip: T,
    /// (inner): the norm of the gated result, within each group
    pub result_norm: T,
    /// (hidden, inner)
    pub output: T,
}

impl<T> Mamba2<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Mamba2<U>, E> {
        Ok(Mamba2 {
            norm: f(&self.norm)?,
            gate: f(&self.gate)?,
            input: f(&self.input)?,
            step: f(&self.step)?,
            conv: f(&self.conv)?,
            conv_bias: f(&self.conv_bias)?,
            step_bias: f(&self.step_bias)?,
            decay: f(&self.decay)?,
            skip: f(&self.skip)?,
            result_norm: f(&self.result_norm)?,
            output: f(&self.output)?,
        })
    }
}
