//! The number types of activations.

use half::{bf16, f16};

/// A number type. Executors compute in f32 and round to a buffer's type at each store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F16,
    BF16,
}

impl DType {
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }

    /// Rounds each value to the nearest number of this type.
    pub fn round(self, values: &mut [f32]) {
        match self {
            Self::F32 => {}
            Self::F16 => values
                .iter_mut()
                .for_each(|value| *value = f16::from_f32(*value).to_f32()),
            Self::BF16 => values
                .iter_mut()
                .for_each(|value| *value = bf16::from_f32(*value).to_f32()),
        }
    }
}
