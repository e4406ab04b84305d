//! The modes of recording, with their names in vLLM and vLLM-Ascend.

use serde::Serialize;

use crate::choice::Choice;

/// The work that is recorded and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
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

impl Choice for Mode {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        match self {
            Self::FullDecodeOnly => "The whole step; prompts run eagerly",
            Self::Full => "The whole step, and short prompts padded to one of a few sizes",
            Self::Piecewise => "The step in segments, with attention eager between them",
            Self::None => "Nothing",
        }
    }
}
