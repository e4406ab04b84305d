//! The rules by which families of models choose the size and the tiles of an image.

/// The rule of a family. Sides are in pixels. Where a file has no numbers, `Settings` has those that are published.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Qwen3-VL and Qwen3.5: the nearest multiples of a merge block, within an area.
    Qwen { min_pixels: u64, max_pixels: u64 },
    /// Gemma 3: a square, whatever the aspect. One side of it.
    Gemma3 { side: u32 },
    /// Gemma 4: as large as this number of tokens allows. Small images are enlarged too.
    Gemma4 { tokens: u32 },
    /// SmolVLM and Idefics 3: the longer side is fixed. The image is cut into tiles, and shown as a whole after them.
    SmolVlm { longest: u32, tile: u32 },
    /// LFM2-VL: within a number of tokens, or, where it is far larger, a grid of tiles.
    Lfm2Vl(Lfm2Vl),
}

/// The numbers of LFM2-VL's rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lfm2Vl {
    pub min_tokens: u64,
    pub max_tokens: u64,
    /// An image is cut if it has more pixels than `max_tokens` stand for, times this.
    pub tolerance: f64,
    /// One side of a tile.
    pub tile: u32,
    pub min_tiles: u32,
    /// The most tiles, or 0 if no image is cut.
    pub max_tiles: u32,
    /// Whether the whole image follows its tiles.
    pub has_thumbnail: bool,
}
