//! How a language model reads the embeddings of images. Models of text have the defaults.

use crate::model::error::Defect;
use crate::tape::Sections;

/// How the rows of images differ from those of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageShape {
    /// The parts of positions that pairs rotate by (Qwen3-VL); `None` means one position for each row.
    pub sections: Option<Sections>,
    /// The number of first layers after which further embeddings are added (Qwen3-VL).
    pub deepstack: usize,
    /// The layers in which the rows of an image see all of its rows.
    pub joined: JoinedLayers,
    /// The token whose row is read in place of an image's row, where a model needs one (Gemma 4: `pad_token_id`).
    pub token: u32,
}

/// The layers in which the rows of an image see all of its rows, and not only earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinedLayers {
    #[default]
    None,
    /// Those that see a window of positions (Gemma 4 without additional inputs of layers).
    Windows,
    /// Gemma 3
    All,
}

impl ImageShape {
    /// Whether all rows of an image must run at once, because they see each other.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined != JoinedLayers::None
    }

    /// Whether the rows of an image see each other in a layer.
    #[must_use]
    pub const fn joins(&self, has_window: bool) -> bool {
        match self.joined {
            JoinedLayers::None => false,
            JoinedLayers::Windows => has_window,
            JoinedLayers::All => true,
        }
    }
}

/// Returns the parts of positions that a file states: `key` has three numbers, and perhaps a fourth, which is 0.
pub(in crate::model) fn sections(key: String, stated: &[usize]) -> Result<Sections, Defect> {
    match *stated {
        [time, row, column] | [time, row, column, 0] => Ok(Sections {
            pairs: [time, row, column],
        }),
        _ => Err(Defect::bad_value(
            key,
            format!("{stated:?}"),
            "it must have three numbers, of pairs that rotate by time, row and column",
        )),
    }
}
