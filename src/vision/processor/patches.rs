//! From the pixels of a tile to its patch vectors, in the order of the published processors.

use super::super::rgb::RgbImage;
use super::plan::Grid;
use super::settings::Settings;

/// The part of an image that a tile shows: its first column and row.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) image: &'a RgbImage,
    pub(super) column: u32,
    pub(super) row: u32,
}

/// Appends the patches of a tile.
pub(super) fn append(
    to: &mut Vec<f32>,
    view: View<'_>,
    grid: Grid,
    settings: &Settings,
    table: &[[f32; 256]; 3],
) {
    let block = if settings.by_block { settings.merge } else { 1 };
    for block_row in 0..grid.rows / block {
        for block_column in 0..grid.columns / block {
            for row in 0..block {
                for column in 0..block {
                    let column = (block_column * block + column) * settings.patch + view.column;
                    let row = (block_row * block + row) * settings.patch + view.row;
                    let corner = View {
                        column,
                        row,
                        ..view
                    };
                    patch(to, corner, settings, table);
                }
            }
        }
    }
}

/// Appends the patch whose first pixel is that of the view.
fn patch(to: &mut Vec<f32>, view: View<'_>, settings: &Settings, table: &[[f32; 256]; 3]) {
    let side = settings.patch as usize;
    let rows =
        (view.row..view.row + settings.patch).map(|row| &view.image.row(row, view.column)[..side]);
    if settings.by_pixel {
        for pixels in rows {
            let numbers = pixels.iter().flat_map(|pixel| {
                let [red, green, blue] = pixel.map(usize::from);
                [table[0][red], table[1][green], table[2][blue]]
            });
            to.extend(numbers);
        }
        return;
    }
    for (channel, table) in table.iter().enumerate() {
        let start = to.len();
        for pixels in rows.clone() {
            to.extend(
                pixels
                    .iter()
                    .map(|pixel| table[usize::from(pixel[channel])]),
            );
        }
        let end = to.len();
        for _ in 1..settings.repeats {
            to.extend_from_within(start..end);
        }
    }
}
