//! What is recorded, by the names that vLLM and vLLM-Ascend gave it.

use clap::ValueEnum;
use serde::Serialize;

/// Which parts of the work are recorded and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Mode {
    /// The whole step; prompts run eagerly.
    #[default]
    FullDecodeOnly,
    /// The whole step, and short prompts padded to one of a few sizes.
    Full,
    /// The step in segments, with attention eager between them.
    Piecewise,
    /// Nothing.
    None,
}

impl Mode {
    pub const ALL: [Self; 4] = [
        Self::FullDecodeOnly,
        Self::Full,
        Self::Piecewise,
        Self::None,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullDecodeOnly => "full_decode_only",
            Self::Full => "full",
            Self::Piecewise => "piecewise",
            Self::None => "none",
        }
    }
}
