//! The dimensions and properties of a vision tower and of its projector, checked once for all file formats.

use crate::model::error::Defect;
use crate::tape::{Activation, NormKind};

/// A vision tower and its projector. A `TowerShape` has been checked: no dimension is zero, and no product overflows.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerShape {
    /// The name of its family.
    pub family: &'static str,
    pub patch: PatchShape,
    pub hidden: usize,
    pub blocks: usize,
    pub heads: usize,
    pub head_dim: usize,
    /// The factor of the products of q and k.
    pub scale: f32,
    pub mlp: TowerMlp,
    pub norm: NormKind,
    pub epsilon: f32,
    /// Whether the results of attention and of the MLP are normed before they are added (Gemma 4).
    pub norms_results: bool,
    /// Whether the heads of q and k are normed by weights, and those of v without (Gemma 4).
    pub norms_heads: bool,
    pub positions: Positions,
    pub rotation: Option<TowerRotation>,
    /// Whether a norm follows the last block.
    pub norms_output: bool,
    /// The blocks after which the hidden states also become embeddings, for the first layers of the language model, in
    /// order (`DeepStack`, Meng et al. 2024).
    pub deepstack: Vec<usize>,
    pub projector: ProjectorShape,
}

/// The patches of an image, as the tower receives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchShape {
    /// Pixels of a side.
    pub size: usize,
    /// Equal pictures in a patch: two in a model that also reads videos.
    pub frames: usize,
    /// Whether a patch is (y, x, channel) rather than (channel, frame, y, x).
    pub channels_last: bool,
    /// Whether the patches that become one token are consecutive, rather than all patches row by row.
    pub in_blocks: bool,
    /// Whether pixels from 0 to 1 become -1 to 1 in the tower (Gemma 4).
    pub recentered: bool,
}

/// The MLP of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TowerMlp {
    pub width: usize,
    /// Whether the activation of a second product multiplies the first.
    pub gated: bool,
    pub activation: Activation,
}

/// The position embeddings that are added to patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// A table of `side x side`, which is the grid of every image.
    Fixed { side: usize },
    /// A table of `side x side`, stretched so that corners meet corners (Qwen).
    Stretched { side: usize },
    /// A table of `side x side`, resized as an image is, with antialiasing (LFM2-VL).
    Resized { side: usize },
    /// A table of columns and one of rows, each of `length`, which are added (Gemma 4).
    Axes { length: usize },
}

/// An axis of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    Row,
    Column,
}

/// The rotation of q and k by two positions: the first half of a head's pairs turns by the first axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TowerRotation {
    pub theta: f64,
    pub axes: [Axis; 2],
    /// The parts of a head whose elements pair among themselves: the whole head (1), or each half (2).
    pub parts: usize,
}

/// A projector, from patches to embeddings of a language model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProjectorShape {
    /// A token is made from `side x side` patches.
    pub side: usize,
    pub reduction: Reduction,
    /// The norm of tokens before the first product.
    pub norm: Option<ProjectorNorm>,
    /// The width of the first of two products; `None` means that there is one.
    pub width: Option<usize>,
    /// The activation between two products.
    pub activation: Activation,
    /// The width of the language model.
    pub text: usize,
}

impl ProjectorShape {
    /// One product of concatenated patches, without sizes.
    pub(in crate::model) const CONCATENATED: Self = Self {
        side: 0,
        reduction: Reduction::Concatenated,
        norm: None,
        width: None,
        activation: Activation::Gelu,
        text: 0,
    };
}

/// How the patches of a square become a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// Their values are concatenated.
    Concatenated,
    /// Their mean, times a factor; then, if `standardized`, minus a bias and times a factor of each column.
    Averaged { scale: f32, standardized: bool },
}

/// A norm of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProjectorNorm {
    pub kind: NormKind,
    pub epsilon: f32,
    pub weighted: bool,
    /// The number that is added to the stored weights.
    pub added: f32,
}

/// The patches of an image: `rows x columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    pub rows: usize,
    pub columns: usize,
}

/// Why a tower cannot read an image of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    #[error(
        "a grid of {rows} x {columns} patches has no squares of {side} x {side}: resize the image so that both sides \
         are multiples of {side} patches"
    )]
    Squares {
        rows: usize,
        columns: usize,
        side: usize,
    },
    #[error(
        "a grid of {rows} x {columns} patches is not {side} x {side}, which this model reads: resize the image"
    )]
    Fixed {
        rows: usize,
        columns: usize,
        side: usize,
    },
    #[error(
        "a side of {length} patches exceeds the {most} that the model has positions for: resize the image"
    )]
    Side { length: usize, most: usize },
    #[error(
        "{patches} patches exceed the {most} that memory is reserved for: resize the image, or reserve more"
    )]
    Patches { patches: usize, most: usize },
}

impl Grid {
    /// The number of patches.
    #[must_use]
    pub const fn patches(self) -> usize {
        self.rows.saturating_mul(self.columns)
    }
}

impl PatchShape {
    /// The elements of a patch, as it is received.
    #[must_use]
    pub const fn received(&self) -> usize {
        self.frames * self.multiplied()
    }

    /// The elements of a patch of one picture, which the first product reads.
    #[must_use]
    pub const fn multiplied(&self) -> usize {
        CHANNELS * self.size * self.size
    }
}

/// Red, green and blue.
pub(in crate::model) const CHANNELS: usize = 3;

impl TowerShape {
    /// The columns of q, of k and of v.
    #[must_use]
    pub const fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The embeddings of an image.
    #[must_use]
    pub const fn tokens(&self, grid: Grid) -> usize {
        grid.patches() / (self.projector.side * self.projector.side)
    }

    /// The columns of a token before the first product of the projector.
    #[must_use]
    pub const fn token_width(&self) -> usize {
        match self.projector.reduction {
            Reduction::Concatenated => self.projector.side * self.projector.side * self.hidden,
            Reduction::Averaged { .. } => self.hidden,
        }
    }

    /// Returns a grid with the most patches up to `patches`, and at least one token. Its sides may be too long for an
    /// image: it only states the memory that images need.
    #[must_use]
    pub const fn widest(&self, patches: usize) -> Grid {
        let side = self.projector.side;
        if let Positions::Fixed { side } = self.positions {
            return Grid {
                rows: side,
                columns: side,
            };
        }
        let squares = patches / (side * side);
        let squares = if squares == 0 { 1 } else { squares };
        Grid {
            rows: side,
            columns: squares * side,
        }
    }

    /// Checks that the tower can read images of a grid.
    ///
    /// # Errors
    /// If the sides are no multiples of a token's, or the positions do not suffice.
    pub fn check_grid(&self, grid: Grid) -> Result<(), GridError> {
        let Grid { rows, columns } = grid;
        let of_token = self.projector.side;
        if let Positions::Fixed { side } = self.positions
            && (rows, columns) != (side, side)
        {
            return Err(GridError::Fixed {
                rows,
                columns,
                side,
            });
        }
        let fits = |length: usize| length > 0 && length.is_multiple_of(of_token);
        if !fits(rows) || !fits(columns) {
            let side = of_token;
            return Err(GridError::Squares {
                rows,
                columns,
                side,
            });
        }
        let most = match self.positions {
            Positions::Axes { length } => length,
            _ => MOST_SIDE,
        };
        let length = rows.max(columns);
        if length > most {
            return Err(GridError::Side { length, most });
        }
        Ok(())
    }

    /// Checks all dimensions.
    pub(in crate::model) fn check(self) -> Result<Self, Defect> {
        let projector = &self.projector;
        let within = |(key, value, least, most): (&str, usize, usize, usize)| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let allowed = format!("it must be from {least} to {most}");
            Err(Defect::bad_value(
                format!("vision tower: {key}"),
                value,
                allowed,
            ))
        };
        // A matrix has at least two rows: one row is a vector.
        [
            ("patch size", self.patch.size, 1, 1 << 8),
            ("frames of a patch", self.patch.frames, 1, 2),
            ("hidden size", self.hidden, 2, 1 << 14),
            ("blocks", self.blocks, 1, 1 << 8),
            ("attention heads", self.heads, 1, 1 << 8),
            ("head dimension", self.head_dim, 2, 1 << 10),
            ("intermediate size", self.mlp.width, 2, 1 << 16),
            ("side of a token", projector.side, 1, 16),
            ("projector width", projector.width.unwrap_or(2), 2, 1 << 16),
            (
                "hidden size of the language model",
                projector.text,
                2,
                1 << 16,
            ),
        ]
        .into_iter()
        .try_for_each(within)?;
        let (key, length) = match self.positions {
            Positions::Fixed { side }
            | Positions::Stretched { side }
            | Positions::Resized { side } => ("side of the position embeddings", side),
            Positions::Axes { length } => ("position embeddings of a side", length),
        };
        within((key, length, 1, MOST_SIDE))?;
        if let Positions::Fixed { side } = self.positions
            && !side.is_multiple_of(projector.side)
        {
            let allowed = format!("it must be a multiple of {}", projector.side);
            return Err(Defect::bad_value("patches of a side", side, allowed));
        }
        if let Some(rotation) = self.rotation {
            if !self.head_dim.is_multiple_of(4) {
                let allowed = "it must be a multiple of 4 to rotate in two dimensions";
                return Err(Defect::bad_value("head dimension", self.head_dim, allowed));
            }
            if !(rotation.theta.is_finite() && rotation.theta > 0.0) {
                let allowed = "it must be positive and finite";
                return Err(Defect::bad_value("rope base", rotation.theta, allowed));
            }
        }
        let epsilons = projector.norm.map(|norm| norm.epsilon);
        for epsilon in std::iter::once(self.epsilon).chain(epsilons) {
            if !(epsilon.is_finite() && epsilon > 0.0) {
                let allowed = "it must be a small positive number";
                return Err(Defect::bad_value("norm epsilon", epsilon, allowed));
            }
        }
        let mut before = None;
        for block in &self.deepstack {
            if *block >= self.blocks || before.is_some_and(|before| before >= *block) {
                let allowed = format!(
                    "blocks from 0 to {}, each once and in order",
                    self.blocks - 1
                );
                let listed = format!("{:?}", self.deepstack);
                return Err(Defect::bad_value("deepstack blocks", listed, allowed));
            }
            before = Some(*block);
        }
        Ok(self)
    }
}

/// The most patches of a side: far above any image of the supported families.
const MOST_SIDE: usize = 1 << 15;
