//! The bounds of dimensions: far above any model of the supported families, and low enough that no product overflows.

use crate::model::error::Defect;

/// A dimension's name, its value, and its bounds.
pub(super) type Size = (&'static str, usize, usize, usize);

/// Checks the number of layers.
pub(in crate::model) fn layers(count: usize) -> Result<usize, Defect> {
    within(("layers", count, 1, 1 << 10)).map(|()| count)
}

/// Checks the size of a head.
pub(in crate::model) fn head_dim(size: usize) -> Result<usize, Defect> {
    within(("head dimension", size, 2, 1 << 10)).map(|()| size)
}

pub(super) fn within((key, value, least, most): Size) -> Result<(), Defect> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = format!("it must be from {least} to {most}");
    Err(Defect::bad_value(key, value, allowed))
}
