//! The weights of a head that guesses tokens: multi-token prediction (Gloeckle et al. 2024, arXiv:2404.19737; `DeepSeek` 2024,
//! arXiv:2412.19437), as in Qwen3.5.

use super::layer::Layer;

/// A head: from the hidden state of a position and the next token it predicts the token after that.
///
/// Its input is `join [rmsnorm(embedding of the token) | rmsnorm(hidden state)]`, where the hidden state is the model's
/// after its output norm. Its layer's result, after the head's output norm, is the hidden state of the next pass.
#[derive(Clone, Debug)]
pub struct GuessHead<T> {
    /// (vocabulary, hidden); `None` if it is the model's.
    pub embedding: Option<T>,
    /// (hidden)
    pub embedding_norm: T,
    /// (hidden)
    pub hidden_norm: T,
    /// (hidden, `2 * hidden`)
    pub join: T,
    pub layer: Layer<T>,
    /// (hidden); `None` if it is the model's.
    pub output_norm: Option<T>,
    /// (vocabulary, hidden); `None` if it is the model's.
    pub head: Option<T>,
}

impl<T> GuessHead<T> {
    /// Returns the structure with each weight replaced by `f(weight)`, in the order of a pass.
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<GuessHead<U>, E> {
        Ok(GuessHead {
            embedding: self.embedding.as_ref().map(&mut f).transpose()?,
            embedding_norm: f(&self.embedding_norm)?,
            hidden_norm: f(&self.hidden_norm)?,
            join: f(&self.join)?,
            layer: self.layer.try_map(&mut f)?,
            output_norm: self.output_norm.as_ref().map(&mut f).transpose()?,
            head: self.head.as_ref().map(&mut f).transpose()?,
        })
    }
}
