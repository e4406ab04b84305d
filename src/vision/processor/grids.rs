//! LFM2-VL's grid of tiles: the one whose aspect is nearest to the image's.

use super::plan::Grid;

/// Returns the grid for an image, of `min` to `max` tiles whose side is `tile`. The larger of two equally near grids is
/// taken if the image has more than half of its pixels.
pub(super) fn nearest((width, height): (u32, u32), tile: u32, min: u32, max: u32) -> Option<Grid> {
    let aspect = f64::from(width) / f64::from(height);
    let area = u64::from(width) * u64::from(height);
    let mut grids: Vec<_> = (1..=max)
        .flat_map(|columns| (1..=max / columns).map(move |rows| Grid { rows, columns }))
        .filter(|grid| grid.count() >= u64::from(min))
        .collect();
    grids.sort_by_key(|grid| grid.count());
    let mut best = None;
    for grid in grids {
        let difference = (aspect - f64::from(grid.columns) / f64::from(grid.rows)).abs();
        let pixels = grid.count() * u64::from(tile) * u64::from(tile);
        let is_better = match best {
            None => true,
            // Equal aspects have equal numbers.
            Some((least, _)) => difference < least || difference <= least && area * 2 > pixels,
        };
        if is_better {
            best = Some((difference, grid));
        }
    }
    best.map(|(_, grid)| grid)
}
