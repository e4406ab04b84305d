//! The selected types of the key-value cache, and the reason for them.

use crate::kv::{KvType, KvTypes};

/// The greatest mean |delta logprob| of the built-in text at which "auto" selects q8_0 for K.
pub const KEY_BOUND: f64 = 0.02;

/// The reason for the type of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyReason {
    /// The configuration sets the type.
    Configured,
    /// The keys have biases.
    Biases,
    /// The built-in text was scored.
    Measured,
    /// The built-in text could not be scored.
    NotMeasured,
    /// Heads are not a multiple of a block of q8_0.
    HeadWidth,
}

impl KeyReason {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Biases => "biases",
            Self::Measured => "measured",
            Self::NotMeasured => "not measured",
            Self::HeadWidth => "head width",
        }
    }
}

/// The selected types, and the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvSelection {
    pub types: KvTypes,
    pub reason: KeyReason,
    /// Whether the model's keys have biases.
    pub biased: bool,
    /// The mean |delta logprob| of the built-in text with q8_0 for K; `None` if it was not measured.
    pub key_delta: Option<f64>,
}

impl KvSelection {
    /// Returns the names of the types of K and V.
    #[must_use]
    pub fn names(&self) -> [&'static str; 2] {
        self.types.sides().map(KvType::name)
    }

    /// Returns the mean |delta logprob| of q8_0 for K, if the cache has that type, and the bound is exceeded.
    #[must_use]
    pub fn harm(&self) -> Option<f64> {
        let is_q8_0 = self.types.k == KvType::Q8_0;
        // NaN exceeds every bound.
        let beyond = |delta: &f64| is_q8_0 && (delta.is_nan() || *delta > KEY_BOUND);
        self.key_delta.filter(beyond)
    }
}
