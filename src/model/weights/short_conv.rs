//! The weights of a short gated convolution, as in LFM2.

/// `output (C * conv(B * X))`
#[derive(Clone, Debug)]
pub struct ShortConv<T> {
    /// (hidden)
    pub norm: T,
    /// (`3 * hidden`, hidden): B, C and X
    pub input: T,
    /// (`hidden * kernel`): the taps of each channel; the last one meets the current position
    pub conv: T,
    /// (hidden, hidden)
    pub output: T,
}

impl<T> ShortConv<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<ShortConv<U>, E> {
        Ok(ShortConv {
            norm: f(&self.norm)?,
            input: f(&self.input)?,
            conv: f(&self.conv)?,
            output: f(&self.output)?,
        })
    }
}
