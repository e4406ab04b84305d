//! The size of an image within an area: the nearest multiples of a block's side, near the aspect of the image.

/// Returns the multiple of `block` that is nearest to `side`. Halves go to the even multiple, as Python rounds.
pub(super) fn nearest(side: u32, block: u32) -> u32 {
    whole((f64::from(side) / f64::from(block)).round_ties_even()) * block
}

/// Returns the width and height for an image of `(width, height)`. `(wide, high)` are the nearest multiples, and stay if
/// their area is between `min` and `max` pixels. Otherwise the result is the largest below, or the smallest above.
pub(super) fn within(
    (width, height): (u32, u32),
    (wide, high): (u32, u32),
    block: u32,
    min: u64,
    max: u64,
) -> (u32, u32) {
    let nearest_area = u64::from(wide) * u64::from(high);
    let area = f64::from(width) * f64::from(height);
    if nearest_area > max {
        let shrink = (area / float(max)).sqrt();
        let fit = |side| whole((f64::from(side) / shrink / f64::from(block)).floor()) * block;
        return (fit(width).max(block), fit(height).max(block));
    }
    if nearest_area < min {
        let grow = (float(min) / area).sqrt();
        let fit = |side| whole((f64::from(side) * grow / f64::from(block)).ceil()) * block;
        return (fit(width), fit(height));
    }
    (wide, high)
}

/// Returns a size of at most `most` blocks. The side of a thin image is one block at least, so that only its other side can
/// become shorter.
pub(super) fn shortened((width, height): (u32, u32), block: u32, most: u64) -> (u32, u32) {
    let (wide, high) = (width / block, height / block);
    if u64::from(wide) * u64::from(high) <= most {
        return (width, height);
    }
    let along = |side: u32, across: u32| {
        let blocks = (most / u64::from(across)).max(1);
        side.min(u32::try_from(blocks).unwrap_or(u32::MAX)) * block
    };
    if wide > high {
        (along(wide, high), height)
    } else {
        (width, along(high, wide))
    }
}

/// A number of blocks, which is far below 2^32.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) const fn whole(number: f64) -> u32 {
    number as u32
}

/// A number of pixels.
#[allow(clippy::cast_precision_loss)] // it is far below 2^52
pub(super) const fn float(pixels: u64) -> f64 {
    pixels as f64
}
