//! The types of the key-value cache in a configuration, where "auto" is a choice too.

use serde::Serialize;

use crate::choice::Choice;
use crate::kv::{KvType, KvTypes};

/// The type of K or of V, or "auto".
#[allow(non_camel_case_types)] // the usual names of these formats
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KvChoice {
    #[default]
    F16,
    Q8_0,
    /// q8_0 for V, and for K if it was measured not to change what the model computes
    Auto,
    BF16,
    F32,
}

impl Choice for KvChoice {
    const ALL: &'static [Self] = &[Self::F16, Self::Q8_0, Self::Auto, Self::BF16, Self::F32];

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        match self {
            Self::Auto => {
                "q8_0 for V, and for K if it was measured not to change what the model computes"
            }
            _ => "",
        }
    }
}

impl From<KvType> for KvChoice {
    fn from(element: KvType) -> Self {
        match element {
            KvType::F32 => Self::F32,
            KvType::F16 => Self::F16,
            KvType::BF16 => Self::BF16,
            KvType::Q8_0 => Self::Q8_0,
        }
    }
}

impl KvChoice {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.fixed() {
            Some(element) => element.name(),
            None => "auto",
        }
    }

    /// Returns the type; `None` for "auto".
    #[must_use]
    pub const fn fixed(self) -> Option<KvType> {
        match self {
            Self::F32 => Some(KvType::F32),
            Self::F16 => Some(KvType::F16),
            Self::BF16 => Some(KvType::BF16),
            Self::Q8_0 => Some(KvType::Q8_0),
            Self::Auto => None,
        }
    }
}

/// The choices for K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KvChoices {
    pub k: KvChoice,
    pub v: KvChoice,
}

/// Types of K and V that no executor supports together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "K of type {} and V of type {} are not supported together: use one type for both, or \"q8_0\" for one and \"f16\" or \
     \"bf16\" for the other", .0.k.name(), .0.v.name()
)]
pub struct Unsupported(KvChoices);

impl From<KvChoice> for KvChoices {
    fn from(both: KvChoice) -> Self {
        Self { k: both, v: both }
    }
}

impl From<KvType> for KvChoices {
    fn from(both: KvType) -> Self {
        KvChoice::from(both).into()
    }
}

impl From<KvTypes> for KvChoices {
    fn from(KvTypes { k, v }: KvTypes) -> Self {
        let (k, v) = (k.into(), v.into());
        Self { k, v }
    }
}

impl KvChoices {
    /// Checks that every selection that these choices allow is supported.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(self) -> Result<(), Unsupported> {
        let is_supported = match (self.k.fixed(), self.v.fixed()) {
            (Some(k), Some(v)) => KvTypes::of(k, v).is_supported(),
            (Some(one), None) | (None, Some(one)) => one != KvType::F32,
            (None, None) => true,
        };
        is_supported.then_some(()).ok_or(Unsupported(self))
    }
}
