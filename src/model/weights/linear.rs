//! A matrix with an optional bias.

/// `y = weight x + bias`
#[derive(Clone, Debug)]
pub struct Linear<T> {
    pub weight: T,
    /// (rows of weight)
    pub bias: Option<T>,
}

impl<T> Linear<T> {
    pub(super) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Linear<U>, E> {
        Ok(Linear {
            weight: f(&self.weight)?,
            bias: self.bias.as_ref().map(f).transpose()?,
        })
    }
}
