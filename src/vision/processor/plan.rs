//! What becomes of one image.

/// Rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    pub rows: u32,
    pub columns: u32,
}

impl Grid {
    /// The number of places.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.rows as u64 * self.columns as u64
    }
}

/// The part of the image that a tile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// All of an image that is not cut.
    Whole,
    /// A tile, counted from 0 at the top left.
    Cut { row: u32, column: u32 },
    /// All of an image that is cut, once more and smaller.
    Overview,
}

/// A picture that the tower sees by itself: an image, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    pub place: Place,
    pub patches: Grid,
    /// The tokens that the patches become.
    pub tokens: Grid,
}

/// What becomes of an image: its tiles in the order of the prompt, and the sizes on the way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Pixels of the image's rows, and the number of rows.
    pub width: u32,
    pub height: u32,
    pub tiles: Vec<Tile>,
    /// Rows and columns of tiles, if the image is cut.
    pub cut: Option<Grid>,
    /// Width and height after each resize of the image. Tiles are cut from the last.
    pub(super) sizes: Vec<(u32, u32)>,
    pub(super) overview: Option<Overview>,
}

/// How the overview is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Overview {
    /// Whether it is made from the last of `Plan::sizes`. Otherwise it is made from the image as it is.
    pub(super) is_resized_twice: bool,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Plan {
    /// The tokens of all tiles. Marks between tiles are not counted.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tiles.iter().map(|tile| tile.tokens.count()).sum()
    }

    /// The patches of all tiles.
    #[must_use]
    pub fn patches(&self) -> u64 {
        self.tiles.iter().map(|tile| tile.patches.count()).sum()
    }

    /// Returns the most bytes of the pixels that the resizes make, besides patches.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let overview = self.overview.map(|one| (one.width, one.height));
        let sizes = self.sizes.iter().copied().chain(overview);
        // A resize has rows of its own, in both directions at most as many as the result.
        let bytes = sizes.map(|(width, height)| u64::from(width) * u64::from(height) * 3);
        bytes.sum::<u64>() * 2
    }
}
