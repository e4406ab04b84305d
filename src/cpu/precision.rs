//! The precision of activations that are multiplied with weights in blocks.

use serde::Serialize;

use crate::choice::Choice;

/// The numbers that rows of activations are converted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 16 bits, with a unit for each 32 or 256 of them.
    #[default]
    I16,
    /// As accurate as f32, and slower.
    F32,
}

impl Choice for Precision {
    const ALL: &'static [Self] = &[Self::I16, Self::F32];

    fn name(self) -> &'static str {
        match self {
            Self::I16 => "i16",
            Self::F32 => "f32",
        }
    }
}
