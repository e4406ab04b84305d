//! Gemma 4's size: as large as a number of tokens allows, in whole blocks.

use super::area::{float, whole};

/// The numbers of tokens that the models know.
const KNOWN: [u32; 5] = [1120, 560, 280, 140, 70];

/// Returns the budgets to try under a cap: the model's, the smaller known ones, and the cap itself.
pub(super) fn budgets(tokens: u32, cap: u64) -> impl Iterator<Item = u32> {
    let smaller = KNOWN.into_iter().filter(move |known| *known < tokens);
    let last = u32::try_from(cap).ok().filter(|cap| *cap < tokens);
    std::iter::once(tokens).chain(smaller).chain(last)
}

/// Returns the width and height, or `None` if no block fits.
pub(super) fn size((width, height): (u32, u32), block: u32, tokens: u32) -> Option<(u32, u32)> {
    let pixels = u64::from(tokens) * u64::from(block) * u64::from(block);
    let area = f64::from(width) * f64::from(height);
    let scale = (float(pixels) / area).sqrt();
    let blocks = |side: u32| whole((f64::from(side) * scale / f64::from(block)).floor());
    let (across, down) = (blocks(width), blocks(height));
    // An image that is too thin for a block gets one, and its other side follows the aspect.
    let long =
        |long: u32, short: u32| whole((f64::from(long) / f64::from(short)).floor()).min(tokens);
    let (across, down) = match (across, down) {
        (0, 0) => return None,
        (0, _) => (1, long(height, width)),
        (_, 0) => (long(width, height), 1),
        both => both,
    };
    Some((across * block, down * block))
}
