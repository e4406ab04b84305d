//! The properties of a format.

use super::layout::Layout;
use super::recipe;
use super::rows::TileRows;

/// The properties of a format, apart from its values.
pub(super) struct About {
    pub(super) values: usize,
    pub(super) bytes: usize,
    pub(super) layout: Layout,
    pub(super) random: recipe::Block,
    /// Splits rows of a number of columns. It does nothing for formats without blocks.
    pub(super) take_apart: fn(&[u8], usize, &mut TileRows),
}
