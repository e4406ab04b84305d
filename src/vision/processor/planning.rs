//! The plan of an image, by the rule of its model.

use super::super::error::ImageError;
use super::plan::{Grid, Overview, Place, Plan, Tile};
use super::rule::{Lfm2Vl, Rule};
use super::settings::Settings;
use super::{area, budget, grids, split};

/// Qwen's processor refuses longer and thinner images.
const MOST_ASPECT: u32 = 200;

impl Settings {
    /// Returns the plan of an image, in at most `max_tokens` tokens.
    pub(super) fn plan(
        &self,
        width: u32,
        height: u32,
        max_tokens: Option<u64>,
    ) -> Result<Plan, ImageError> {
        assert!(width > 0 && height > 0, "an image has pixels");
        let cap = max_tokens.unwrap_or(u64::MAX);
        let plan = match self.rule {
            Rule::Qwen {
                min_pixels,
                max_pixels,
            } => self.by_area((width, height), min_pixels, max_pixels, cap)?,
            Rule::Gemma3 { side } => self.whole((width, height), vec![(side, side)]),
            Rule::Gemma4 { tokens } => {
                let sizes = budget::budgets(tokens, cap)
                    .filter_map(|tokens| budget::size((width, height), self.block(), tokens));
                let plans = sizes.map(|size| self.whole((width, height), vec![size]));
                within(plans, cap).ok_or(ImageError::TooManyTokens {
                    needed: 1,
                    allowed: cap,
                })?
            }
            Rule::SmolVlm { longest, tile } => self.by_tiles((width, height), longest, tile, cap),
            Rule::Lfm2Vl(numbers) => self.by_grid((width, height), numbers, cap),
        };
        let needed = plan.tokens();
        if needed > cap {
            return Err(ImageError::TooManyTokens {
                needed,
                allowed: cap,
            });
        }
        Ok(plan)
    }

    fn tile(&self, place: Place, (width, height): (u32, u32)) -> Tile {
        let grid = |side| Grid {
            rows: height / side,
            columns: width / side,
        };
        Tile {
            place,
            patches: grid(self.patch),
            tokens: grid(self.block()),
        }
    }

    /// Returns the plan of an image that is not cut.
    fn whole(&self, (width, height): (u32, u32), sizes: Vec<(u32, u32)>) -> Plan {
        let size = *sizes.last().expect("a size");
        let tiles = vec![self.tile(Place::Whole, size)];
        Plan {
            width,
            height,
            tiles,
            cut: None,
            sizes,
            overview: None,
        }
    }

    /// Returns the plan of an image that is cut into tiles of the same size.
    fn cut(
        &self,
        (width, height): (u32, u32),
        sizes: Vec<(u32, u32)>,
        tile: u32,
        overview: Option<Overview>,
    ) -> Plan {
        let size = *sizes.last().expect("a size");
        let grid = Grid {
            rows: size.1 / tile,
            columns: size.0 / tile,
        };
        let places =
            (0..grid.rows).flat_map(|row| (0..grid.columns).map(move |column| (row, column)));
        let tiles = places.map(|(row, column)| self.tile(Place::Cut { row, column }, (tile, tile)));
        let last = overview.map(|one| self.tile(Place::Overview, (one.width, one.height)));
        let tiles = tiles.chain(last).collect();
        Plan {
            width,
            height,
            tiles,
            cut: Some(grid),
            sizes,
            overview,
        }
    }

    fn by_area(
        &self,
        (width, height): (u32, u32),
        min: u64,
        max: u64,
        cap: u64,
    ) -> Result<Plan, ImageError> {
        let (long, short) = (width.max(height), width.min(height));
        if long > short.saturating_mul(MOST_ASPECT) {
            let limit = MOST_ASPECT;
            return Err(ImageError::TooLongAndThin {
                width,
                height,
                limit,
            });
        }
        let block = self.block();
        let of_block = u64::from(block) * u64::from(block);
        let max = max.min(cap.saturating_mul(of_block));
        let nearest = (area::nearest(width, block), area::nearest(height, block));
        let size = area::within((width, height), nearest, block, min.min(max), max);
        let size = area::shortened(size, block, cap);
        Ok(self.whole((width, height), vec![size]))
    }

    /// Under a cap, the longer side has fewer tiles.
    fn by_tiles(&self, size: (u32, u32), longest: u32, tile: u32, cap: u64) -> Plan {
        let most = (longest / tile).max(1);
        let plans = (1..=most).rev().map(|tiles| {
            // Only a cap changes the published longer side.
            let longest = if tiles == most { longest } else { tiles * tile };
            let sizes = split::sizes(size, longest, tile);
            let [_, last] = sizes;
            if last.0.max(last.1) <= tile {
                return self.whole(size, sizes.into());
            }
            let overview = Overview {
                is_resized_twice: true,
                width: tile,
                height: tile,
            };
            self.cut(size, sizes.into(), tile, Some(overview))
        });
        within(plans, cap).expect("a plan of one tile")
    }

    /// Under a cap, there are fewer tiles, then none, and then fewer tokens.
    fn by_grid(&self, size: (u32, u32), numbers: Lfm2Vl, cap: u64) -> Plan {
        let Lfm2Vl {
            min_tokens,
            max_tokens,
            tile,
            ..
        } = numbers;
        let block = self.block();
        let of_block = u64::from(block) * u64::from(block);
        let nearest = (area::nearest(size.0, block), area::nearest(size.1, block));
        let whole = |most: u64| {
            let (wide, high) = (nearest.0.max(block), nearest.1.max(block));
            let (min, max) = (min_tokens.min(most) * of_block, most * of_block);
            area::within(size, (wide, high), block, min, max)
        };
        // The published rule asks with a patch, not a block, as the least side.
        let blocks = u64::from(nearest.0.max(self.patch)) * u64::from(nearest.1.max(self.patch));
        let is_too_large =
            area::float(blocks) > area::float(max_tokens * of_block) * numbers.tolerance;
        let most_tiles = if is_too_large { numbers.max_tiles } else { 0 };
        let with_tiles = (numbers.min_tiles.max(1)..=most_tiles)
            .rev()
            .filter_map(|most| {
                let grid = grids::nearest(size, tile, numbers.min_tiles, most)?;
                let (width, height) = whole(max_tokens);
                let overview = Overview {
                    is_resized_twice: false,
                    width,
                    height,
                };
                let overview = (numbers.has_thumbnail && grid.count() > 1).then_some(overview);
                Some(self.cut(
                    size,
                    vec![(grid.columns * tile, grid.rows * tile)],
                    tile,
                    overview,
                ))
            });
        let without = std::iter::once_with(|| {
            let within = area::shortened(whole(max_tokens.min(cap)), block, cap);
            self.whole(size, vec![within])
        });
        within(with_tiles.chain(without), cap).expect("a plan without tiles")
    }
}

/// Returns the first plan within the cap, or the last.
fn within(plans: impl Iterator<Item = Plan>, cap: u64) -> Option<Plan> {
    let mut last = None;
    for plan in plans {
        if plan.tokens() <= cap {
            return Some(plan);
        }
        last = Some(plan);
    }
    last
}
