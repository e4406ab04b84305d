//! From pixels to the patches of a model: the size that an image gets, its tiles, its tokens, and the numbers that the tower
//! reads. All of it follows the processors that are published with the models.
//!
//! A family is a rule with its numbers (`Rule`). `Plan` has what the rule makes of one image, without any pixel.
//! Not here: GGUF's keys. A GGUF file has few of the numbers, and `Settings` has the published ones for the others.

mod area;
mod budget;
mod check;
mod grids;
mod normalization;
mod patches;
mod pixels;
mod plan;
mod planning;
mod published;
mod rule;
mod settings;
mod settings_error;
mod split;

pub use normalization::Normalization;
pub use pixels::{Pixels, Processor};
pub use plan::{Grid, Place, Plan, Tile};
pub use published::Published;
pub use rule::{Lfm2Vl, Rule};
pub use settings::Settings;
pub use settings_error::SettingsError;
