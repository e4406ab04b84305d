//! SmolVLM's sizes: a fixed longer side, and then whole tiles.

use super::area::whole;

/// Returns the width and height of the first two resizes.
pub(super) fn sizes((width, height): (u32, u32), longest: u32, tile: u32) -> [(u32, u32); 2] {
    let first = with_longest((width, height), longest);
    [first, whole_tiles(first, tile)]
}

/// The longer side is `longest`, and the other follows the aspect, rounded down and then up to an even number.
fn with_longest((width, height): (u32, u32), longest: u32) -> (u32, u32) {
    let aspect = f64::from(width) / f64::from(height);
    let even = |side: f64| whole(side).next_multiple_of(2).max(1);
    if width >= height {
        (longest, even(f64::from(longest) / aspect))
    } else {
        (even(f64::from(longest) * aspect), longest)
    }
}

/// Both sides are multiples of `tile`: the longer one, and then the other by the aspect.
fn whole_tiles((width, height): (u32, u32), tile: u32) -> (u32, u32) {
    let aspect = f64::from(width) / f64::from(height);
    let up = |side: u32| side.next_multiple_of(tile).max(tile);
    if width >= height {
        let width = up(width);
        (width, up(whole(f64::from(width) / aspect)))
    } else {
        let height = up(height);
        (up(whole(f64::from(height) * aspect)), height)
    }
}
