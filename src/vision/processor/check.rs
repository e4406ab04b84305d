//! Checks of settings, so that every plan is finite: values of a file are untrusted.

use std::ops::RangeInclusive;

use super::rule::{Lfm2Vl, Rule};
use super::settings::Settings;
use super::settings_error::SettingsError;

/// The longest side of an image, and of a tile, in pixels.
const LONGEST: u64 = 8192;
const LONGEST_OF_TILE: u64 = 2048;
/// The most tokens of a picture, far above the published ones.
const TOKENS: RangeInclusive<u64> = 1..=1 << 16;
/// The most tiles of an image, or of its side.
const TILES: u64 = 64;
const TILES_OF_SIDE: u64 = 16;

impl Settings {
    /// Returns an error for a value that no plan can be made of.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        within("patch", self.patch.into(), 1..=64)?;
        within("merge", self.merge.into(), 1..=16)?;
        within("repeats", self.repeats.into(), 1..=4)?;
        let block = u64::from(self.block());
        match self.rule {
            Rule::Qwen {
                min_pixels,
                max_pixels,
            } => {
                let pixels = block * block..=TOKENS.end() * block * block;
                within("max_pixels", max_pixels, pixels)?;
                within("min_pixels", min_pixels, 0..=max_pixels)
            }
            Rule::Gemma3 { side } => self.multiple("side", side, LONGEST),
            Rule::Gemma4 { tokens } => within("tokens", tokens.into(), TOKENS),
            Rule::SmolVlm { longest, tile } => {
                self.multiple("tile", tile, LONGEST_OF_TILE)?;
                let most = LONGEST.min(TILES_OF_SIDE * u64::from(tile));
                within("longest", longest.into(), 1..=most)
            }
            Rule::Lfm2Vl(numbers) => {
                let Lfm2Vl {
                    min_tokens,
                    max_tokens,
                    tolerance,
                    tile,
                    min_tiles,
                    max_tiles,
                    ..
                } = numbers;
                self.multiple("tile", tile, LONGEST_OF_TILE)?;
                within("max_tokens", max_tokens, TOKENS)?;
                within("min_tokens", min_tokens, 0..=max_tokens)?;
                within("max_tiles", max_tiles.into(), 0..=TILES)?;
                within("min_tiles", min_tiles.into(), 0..=TILES)?;
                if tolerance.is_finite() && tolerance >= 0.0 {
                    return Ok(());
                }
                let allowed = "a number from 0 on".to_owned();
                Err(SettingsError::Value {
                    what: "tolerance",
                    value: tolerance.to_string(),
                    allowed,
                })
            }
        }
    }

    /// Checks a side of a picture, which consists of whole blocks.
    fn multiple(&self, what: &'static str, side: u32, longest: u64) -> Result<(), SettingsError> {
        within(what, side.into(), 1..=longest)?;
        let block = self.block();
        if side.is_multiple_of(block) {
            return Ok(());
        }
        let allowed = format!("a multiple of {block}, the pixels of a token's side");
        Err(SettingsError::Value {
            what,
            value: side.to_string(),
            allowed,
        })
    }
}

fn within(what: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), SettingsError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("a number from {} to {}", range.start(), range.end());
    Err(SettingsError::Value {
        what,
        value: value.to_string(),
        allowed,
    })
}
