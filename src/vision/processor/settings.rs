//! What a processor depends on.

use super::super::resize::Filter;
use super::normalization::Normalization;
use super::rule::{Lfm2Vl, Rule};

/// The settings of a model's processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub rule: Rule,
    /// Pixels of a patch's side.
    pub patch: u32,
    /// Patches of the side of a block that becomes one token.
    pub merge: u32,
    /// How often a patch vector repeats each channel. A kernel with two temporal slices reads an image twice. A tower that
    /// adds the slices while it is loaded reads it once.
    pub repeats: u32,
    /// Whether the patches of a token follow each other. Otherwise patches are in rows.
    pub by_block: bool,
    /// Whether a patch vector is pixel by pixel. Otherwise it is channel by channel.
    pub by_pixel: bool,
    pub filter: Filter,
    pub normalization: Normalization,
}

impl Settings {
    /// Qwen3-VL and Qwen3.5 as published: 64 to 16,384 tokens.
    #[must_use]
    pub const fn qwen() -> Self {
        Self {
            rule: Rule::Qwen {
                min_pixels: 65_536,
                max_pixels: 16_777_216,
            },
            patch: 16,
            merge: 2,
            repeats: 2,
            by_block: true,
            by_pixel: false,
            filter: Filter::Cubic,
            normalization: Normalization::SYMMETRIC,
        }
    }

    /// Gemma 3 as published: 256 tokens.
    #[must_use]
    pub const fn gemma3() -> Self {
        Self {
            rule: Rule::Gemma3 { side: 896 },
            patch: 14,
            merge: 4,
            repeats: 1,
            by_block: false,
            by_pixel: false,
            filter: Filter::Triangle,
            normalization: Normalization::SYMMETRIC,
        }
    }

    /// Gemma 4 as published: up to 280 tokens.
    #[must_use]
    pub const fn gemma4() -> Self {
        Self {
            rule: Rule::Gemma4 { tokens: 280 },
            patch: 16,
            merge: 3,
            repeats: 1,
            by_block: false,
            by_pixel: true,
            filter: Filter::Cubic,
            normalization: Normalization::Scaled,
        }
    }

    /// SmolVLM as published: up to 16 tiles and the whole image, 64 tokens each.
    #[must_use]
    pub const fn smolvlm() -> Self {
        Self {
            rule: Rule::SmolVlm {
                longest: 2048,
                tile: 512,
            },
            patch: 16,
            merge: 4,
            repeats: 1,
            by_block: false,
            by_pixel: false,
            filter: Filter::Lanczos3,
            normalization: Normalization::SYMMETRIC,
        }
    }

    /// LFM2-VL as published: 64 to 256 tokens, or up to ten tiles of 256 and the whole image.
    #[must_use]
    pub const fn lfm2_vl() -> Self {
        Self {
            rule: Rule::Lfm2Vl(Lfm2Vl {
                min_tokens: 64,
                max_tokens: 256,
                tolerance: 2.0,
                tile: 512,
                min_tiles: 2,
                max_tiles: 10,
                has_thumbnail: true,
            }),
            patch: 16,
            merge: 2,
            repeats: 1,
            by_block: false,
            by_pixel: true,
            filter: Filter::Triangle,
            normalization: Normalization::SYMMETRIC,
        }
    }

    /// Pixels of the side of a block that becomes one token.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.patch * self.merge
    }

    /// Returns the most tokens of one tile of an image that takes at most `max_tokens`. Where a model has one size of tiles, its
    /// tiles have no fewer.
    #[must_use]
    pub fn most_tile_tokens(&self, max_tokens: u64) -> u64 {
        let block = u64::from(self.block());
        let of_side = |side: u32| (u64::from(side) / block) * (u64::from(side) / block);
        match self.rule {
            Rule::Qwen { max_pixels, .. } => max_tokens.min(max_pixels / (block * block)),
            Rule::Gemma3 { side } => of_side(side),
            Rule::Gemma4 { tokens } => max_tokens.min(u64::from(tokens)),
            Rule::SmolVlm { tile, .. } => of_side(tile),
            Rule::Lfm2Vl(Lfm2Vl {
                max_tokens: most,
                tile,
                max_tiles,
                ..
            }) => {
                let of_tile = if max_tiles > 0 { of_side(tile) } else { 0 };
                max_tokens.min(most.max(of_tile))
            }
        }
        .max(1)
    }

    /// Numbers of a patch vector.
    #[must_use]
    pub const fn patch_len(&self) -> usize {
        const CHANNELS: u32 = 3;
        (self.patch * self.patch * CHANNELS * self.repeats) as usize
    }
}
