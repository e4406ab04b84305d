//! The weights of a gated `DeltaNet` (Yang et al. 2024, arXiv:2412.06464), as in Qwen3.5.

/// A gated `DeltaNet`. The channels of its convolution are q and k of all key heads, then v of all value heads.
#[derive(Clone, Debug)]
pub struct DeltaNet<T> {
    /// (hidden)
    pub norm: T,
    /// (channels, hidden)
    pub qkv: T,
    /// (`value_heads * value_dim`, hidden): the gate of the result
    pub z: T,
    /// (`value_heads`, hidden): the step of the decay, before its bias and softplus
    pub a: T,
    /// (`value_heads`, hidden): the strength of an update, before its sigmoid
    pub b: T,
    /// (`channels * kernel`): the taps of each channel; the last one meets the current position
    pub conv: T,
    /// (`value_heads`): the bias of a
    pub step_bias: T,
    /// (`value_heads`): -exp(A), the factor of the step in the logarithm of the decay
    pub decay: T,
    /// (`value_dim`): the norm of each head's result before its gate
    pub result_norm: T,
    /// (hidden, `value_heads * value_dim`)
    pub output: T,
}

impl<T> DeltaNet<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<DeltaNet<U>, E> {
        Ok(DeltaNet {
            norm: f(&self.norm)?,
            qkv: f(&self.qkv)?,
            z: f(&self.z)?,
            a: f(&self.a)?,
            b: f(&self.b)?,
            conv: f(&self.conv)?,
            step_bias: f(&self.step_bias)?,
            decay: f(&self.decay)?,
            result_norm: f(&self.result_norm)?,
            output: f(&self.output)?,
        })
    }
}
