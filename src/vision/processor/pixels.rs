//! The patches of an image, by its plan.

use std::fmt::{self, Debug, Formatter};

use super::super::error::ImageError;
use super::super::resize::resize;
use super::super::rgb::RgbImage;
use super::super::stop::{self, Stop};
use super::patches::{self, View};
use super::plan::{Place, Plan};
use super::settings::Settings;
use super::settings_error::SettingsError;

/// The processor of a model. It has no state, so all threads may use one.
#[derive(Clone, Debug)]
pub struct Processor {
    settings: Settings,
    /// The number of each byte, by channel.
    table: Box<[[f32; 256]; 3]>,
}

/// What a tower reads: the patches of an image.
#[derive(Clone, PartialEq)]
pub struct Pixels {
    /// Patch vectors of `patch_len` numbers, in the order of the plan's tiles.
    pub patches: Vec<f32>,
    pub patch_len: usize,
}

impl Processor {
    /// Returns a processor with these settings.
    ///
    /// # Errors
    /// Returns an error if no image has a plan with them.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let table = Box::new(settings.normalization.table());
        Ok(Self { settings, table })
    }

    /// The settings, which are part of a cache's key.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns what becomes of an image with this width and height, in at most `max_tokens` tokens. It costs microseconds.
    ///
    /// # Errors
    /// Returns an error if the model cannot show the image in as few tokens, or takes no image of its aspect.
    ///
    /// # Panics
    /// Panics if a side is zero.
    pub fn plan(
        &self,
        width: u32,
        height: u32,
        max_tokens: Option<u64>,
    ) -> Result<Plan, ImageError> {
        self.settings.plan(width, height, max_tokens)
    }

    /// Returns the most bytes that `pixels` allocates for this plan, its result included.
    #[must_use]
    pub fn memory(&self, plan: &Plan) -> u64 {
        const NUMBER: usize = size_of::<f32>();
        plan.memory() + plan.patches() * (self.settings.patch_len() * NUMBER) as u64
    }

    /// Returns the most bytes that `pixels` allocates for an image in at most `max_tokens` tokens.
    #[must_use]
    pub fn most_memory(&self, max_tokens: u64) -> u64 {
        let tokens = max_tokens.max(self.settings.most_tile_tokens(max_tokens));
        let block = u64::from(self.settings.block());
        // Three bytes of the resized pixel, as many for the resize itself, and the numbers of its patch.
        let of_pixel = (3 * 2 + 3 * self.settings.repeats as usize * size_of::<f32>()) as u64;
        tokens.saturating_mul(block * block * of_pixel)
    }

    /// Returns the patches of an image by its plan.
    ///
    /// # Errors
    /// Returns `Cancelled` soon after `stop` has returned true.
    ///
    /// # Panics
    /// Panics if the plan is for an image of another size.
    pub fn pixels(
        &self,
        image: &RgbImage,
        plan: &Plan,
        stop: Stop<'_>,
    ) -> Result<Pixels, ImageError> {
        let size = (image.width(), image.height());
        assert_eq!(
            size,
            (plan.width, plan.height),
            "the plan is for another image"
        );
        let filter = self.settings.filter;
        let resized = |from: &RgbImage, (width, height)| resize(from, width, height, filter, stop);
        let mut latest: Option<RgbImage> = None;
        for size in &plan.sizes {
            let from = latest.as_ref().unwrap_or(image);
            if *size != (from.width(), from.height()) {
                latest = Some(resized(from, *size)?);
            }
        }
        let whole = latest.as_ref().unwrap_or(image);
        let overview = plan.overview.map(|one| {
            let from = if one.is_resized_twice { whole } else { image };
            resized(from, (one.width, one.height))
        });
        let overview = overview.transpose()?;
        let patch_len = self.settings.patch_len();
        let count = usize::try_from(plan.patches()).expect("patches in memory");
        let mut patches = Vec::with_capacity(count * patch_len);
        for tile in &plan.tiles {
            stop::check(stop)?;
            let (image, (row, column)) = match tile.place {
                Place::Whole => (whole, (0, 0)),
                Place::Cut { row, column } => {
                    let (rows, columns) = (tile.patches.rows, tile.patches.columns);
                    let patch = self.settings.patch;
                    (whole, (row * rows * patch, column * columns * patch))
                }
                Place::Overview => (overview.as_ref().expect("the plan has an overview"), (0, 0)),
            };
            let view = View { image, column, row };
            patches::append(
                &mut patches,
                view,
                tile.patches,
                &self.settings,
                &self.table,
            );
        }
        Ok(Pixels { patches, patch_len })
    }
}

/// Its numbers are left out.
impl Debug for Pixels {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let count = self.patches.len() / self.patch_len.max(1);
        write!(formatter, "Pixels({count} patches of {})", self.patch_len)
    }
}
