//! Where a prompt shows images: the positions that its rows rotate by, and where it can be cut.

use std::ops::Range;

use super::error::RunError;
use crate::kv::FIRST_IMAGE_ROW;

/// An image that prompts show, or a tile of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTile {
    /// The numbers that stand for its rows in prompts. No other tile has them.
    pub rows: Range<u32>,
    /// Rows and columns of its tokens. Only models with positions of three parts use them.
    pub grid: [usize; 2],
}

/// The images of a prompt, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImagePlaces(Vec<Place>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The first row of the prompt.
    first: usize,
    rows: usize,
    columns: usize,
    /// The distance from the position of a row after the image to the position that it rotates by.
    offset: isize,
}

impl Place {
    const fn end(self) -> usize {
        self.first + self.rows
    }
}

impl ImagePlaces {
    pub(super) const NONE: Self = Self(Vec::new());

    /// Finds the tiles of a prompt. Text counts on after a tile by the longer side of its grid (M-RoPE: Wang et al. 2024).
    ///
    /// # Errors
    /// If a number is of no tile, or rows of a tile are missing.
    pub(super) fn find(prompt: &[u32], tiles: &[ImageTile]) -> Result<Self, RunError> {
        let mut places: Vec<Place> = Vec::new();
        let mut at = 0;
        while at < prompt.len() {
            let number = prompt[at];
            if number < FIRST_IMAGE_ROW {
                at += 1;
                continue;
            }
            let tile = tiles.iter().find(|tile| tile.rows.start == number);
            let tile = tile.ok_or(RunError::ImageRow { at })?;
            for (row, number) in tile.rows.clone().enumerate() {
                if prompt.get(at + row) != Some(&number) {
                    return Err(RunError::ImageRow { at: at + row });
                }
            }
            let (rows, [of_rows, columns]) = (tile.rows.len(), tile.grid);
            let before = places.last().map_or(0, |last| last.offset);
            let longer = of_rows.max(columns);
            places.push(Place {
                first: at,
                rows,
                columns: columns.max(1),
                offset: before + longer.cast_signed() - rows.cast_signed(),
            });
            at += rows;
        }
        Ok(Self(places))
    }

    /// Returns the distance from the position of a row of text to the position that it rotates by.
    pub(super) fn offset_at(&self, position: usize) -> isize {
        let ended = self.0.partition_point(|place| place.end() <= position);
        ended.checked_sub(1).map_or(0, |last| self.0[last].offset)
    }

    /// Returns the time, row and column that each of some rows rotates by.
    pub(super) fn rotations(&self, rows: Range<usize>) -> Vec<[u32; 3]> {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let rotation = |position: usize| {
            let turned = |position: usize| position.saturating_add_signed(self.offset_at(position));
            let parts = match self.around(position) {
                None => [turned(position); 3],
                Some(place) => {
                    let (start, row) = (turned(place.first), position - place.first);
                    let (down, across) = (row / place.columns, row % place.columns);
                    [start, start + down, start + across]
                }
            };
            parts.map(narrow)
        };
        rows.map(rotation).collect()
    }

    /// Returns the end of a run that begins at `begin` and would end at `end`, so that it cuts no image: before an image, or
    /// after the one that it begins with.
    pub(super) fn whole(&self, begin: usize, end: usize) -> usize {
        match self.around(end) {
            Some(cut) if cut.first == end => end,
            Some(cut) if cut.first > begin => cut.first,
            Some(cut) => cut.end(),
            None => end,
        }
    }

    /// The image that a position is in.
    fn around(&self, position: usize) -> Option<Place> {
        let ended = self.0.partition_point(|place| place.end() <= position);
        let next = self.0.get(ended).copied()?;
        (next.first <= position).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_images_rotates_by_less_than_its_place() {
        let first = FIRST_IMAGE_ROW;
        let tiles = [
            ImageTile {
                rows: first..first + 6,
                grid: [2, 3],
            },
            ImageTile {
                rows: first + 6..first + 8,
                grid: [1, 2],
            },
        ];
        let mut prompt = vec![1, 2];
        prompt.extend(first..first + 6);
        prompt.extend([3]);
        prompt.extend(first + 6..first + 8);
        prompt.extend([4, 5]);
        let places = ImagePlaces::find(&prompt, &tiles).expect("all rows are there");
        assert_eq!(
            places.rotations(1..13),
            [
                [1, 1, 1],
                [2, 2, 2],
                [2, 2, 3],
                [2, 2, 4],
                [2, 3, 2],
                [2, 3, 3],
                [2, 3, 4],
                [5, 5, 5],
                [6, 6, 6],
                [6, 6, 7],
                [8, 8, 8],
                [9, 9, 9]
            ]
        );
        assert_eq!(
            [0, 8, 9, 11, 40].map(|at| places.offset_at(at)),
            [0, -3, -3, -3, -3]
        );
        assert_eq!(
            [(0, 1), (0, 2), (0, 5), (2, 5), (2, 8), (8, 10)]
                .map(|(begin, end)| { places.whole(begin, end) }),
            [1, 2, 2, 8, 8, 9]
        );
        prompt.remove(4);
        let refused = ImagePlaces::find(&prompt, &tiles);
        assert_eq!(refused, Err(RunError::ImageRow { at: 4 }));
    }
}
