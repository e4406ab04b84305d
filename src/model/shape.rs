//! The dimensions of a model, checked once, from whichever file they came.

use super::Defect;
use super::rope::Rope;

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

impl Architecture {
    pub const ALL: [Self; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// As `general.architecture` of GGUF and `model_type` of config.json write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The architecture called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
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

    /// The same shape once checked, with the frequencies of `rope`.
    pub(super) fn with_rope(mut self, rope: &Rope) -> Result<Self, Defect> {
        // Far above any model of these families, and low enough that no product of them overflows.
        // A matrix has two rows at least: one row is a vector.
        for (key, value, least, most) in [
            ("layers", self.layers, 1, 1 << 10),
            ("hidden size", self.hidden, 2, 1 << 16),
            ("attention heads", self.heads, 1, 1 << 10),
            ("key-value heads", self.kv_heads, 1, 1 << 10),
            ("head dimension", self.head_dim, 2, 1 << 10),
            ("intermediate size", self.intermediate, 2, 1 << 20),
            ("vocabulary", self.vocabulary, 2, 1 << 22),
            ("context length", self.context, 1, 1 << 24),
        ] {
            if value < least || value > most {
                let allowed = format!("it must be from {least} to {most}");
                return Err(Defect::bad_value(key, value, allowed));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("it must divide the {} attention heads", self.heads);
            return Err(Defect::bad_value("key-value heads", self.kv_heads, allowed));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(Defect::bad_value(
                "head dimension",
                self.head_dim,
                "it must be even",
            ));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            let allowed = "it must be a small positive number";
            return Err(Defect::bad_value(
                "norm epsilon",
                self.norm_epsilon,
                allowed,
            ));
        }
        self.rope_frequencies = rope.frequencies(self.head_dim);
        self.check_rope()?;
        Ok(self)
    }

    /// Checks that every frequency turns a position by a finite angle.
    pub(super) fn check_rope(&self) -> Result<(), Defect> {
        match self
            .rope_frequencies
            .iter()
            .find(|frequency| !(frequency.is_finite() && **frequency > 0.0))
        {
            Some(bad) => Err(Defect::bad_value(
                "rope frequency",
                bad,
                "it must be positive and finite: check the rope base and its scaling",
            )),
            None => Ok(()),
        }
    }
}
