//! The dimensions of a model, checked once, from whichever file they came.

/// The model families that `forward` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 3.x and models of its shape, such as `SmolLM2`.
    Llama,
    /// Qwen2 and Qwen2.5: a bias on Q, K and V.
    Qwen2,
    /// Qwen3: an RMS norm over each head of Q and K.
    Qwen3,
}

/// Dimensions in elements. A `Shape` that exists has been checked: no field is zero, `heads` is a
/// multiple of `kv_heads`, `head_dim` is even, and no product of them overflows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub architecture: Architecture,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    pub norm_epsilon: f32,
    /// (`head_dim` / 2): radians per position of each rotated pair, llama3 scaling already applied.
    pub rope_frequencies: Vec<f32>,
}

impl Shape {
    /// Columns of Q: `heads * head_dim`.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Columns of K, and of V: `kv_heads * head_dim`.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
