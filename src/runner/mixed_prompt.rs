//! Prompts whose rows are given one by one, as tokens or as rows of images, for tools that run no engine.

use std::ops::Range;

use super::error::RunError;
use super::image_places::{ImagePlaces, ImageTile};
use super::tower::Embeddings;
use crate::kv::FIRST_IMAGE_ROW;

/// A row of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptInput {
    Token(u32),
    /// A row of the embeddings of an image. All rows of an image follow each other, from the first one on.
    Image {
        /// The index in the prompt's images.
        image: usize,
        row: usize,
    },
}

/// An image of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct PromptImage<'a> {
    pub embeddings: &'a Embeddings,
    /// Rows and columns of its tokens. Only models with positions of three parts use them.
    pub grid: [usize; 2],
}

/// A prompt with images.
#[derive(Clone, Copy, Debug)]
pub struct MixedPrompt<'a> {
    pub inputs: &'a [PromptInput],
    pub images: &'a [PromptImage<'a>],
}

/// The positions that the rows of a prompt rotate by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotaryPositions {
    /// Time, row and column of each row.
    pub rows: Vec<[u32; 3]>,
    /// The distance from a later row's position in the cache to the position that it rotates by.
    pub offset: isize,
}

/// A prompt as the cache knows it, and its images.
pub(super) struct NumberedPrompt {
    pub(super) numbers: Vec<u32>,
    pub(super) tiles: Vec<ImageTile>,
}

impl MixedPrompt<'_> {
    /// Returns the inputs of a text in which a placeholder stands for each row of an image, in order.
    #[must_use]
    pub fn inputs(
        tokens: &[u32],
        is_image: impl Fn(usize) -> bool,
        images: &[PromptImage<'_>],
    ) -> Vec<PromptInput> {
        let lengths = images.iter().map(|image| image.embeddings.tokens);
        let of_image = |(image, rows): (usize, usize)| (0..rows).map(move |row| (image, row));
        let mut rows = lengths.enumerate().flat_map(of_image);
        let input = |(at, token): (usize, &u32)| {
            let row = is_image(at).then(|| rows.next()).flatten();
            row.map_or(PromptInput::Token(*token), |(image, row)| {
                PromptInput::Image { image, row }
            })
        };
        tokens.iter().enumerate().map(input).collect()
    }

    /// Returns the positions of a prompt whose first row is at `first` of the cache and rotates by `offset` more.
    ///
    /// # Errors
    /// If rows of an image are missing, or do not follow each other.
    pub fn positions(&self, first: usize, offset: isize) -> Result<RotaryPositions, RunError> {
        let NumberedPrompt { numbers, tiles } = self.numbered(FIRST_IMAGE_ROW)?;
        let places = ImagePlaces::find(&numbers, &tiles)?;
        let start = first.saturating_add_signed(offset);
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        let rows = places.rotations(0..numbers.len()).into_iter();
        let rows = rows.map(|parts| parts.map(|part| part.saturating_add(start)));
        Ok(RotaryPositions {
            rows: rows.collect(),
            offset: offset + places.offset_at(numbers.len()),
        })
    }

    /// Returns the prompt with a number for each row of its images, from `first` on.
    ///
    /// # Errors
    /// If an image does not exist. Missing rows are found later.
    pub(super) fn numbered(&self, first: u32) -> Result<NumberedPrompt, RunError> {
        let mut next = first;
        let tiles = self.images.iter().map(|image| {
            let rows = u32::try_from(image.embeddings.tokens).unwrap_or(u32::MAX);
            let begin = next;
            next = next.saturating_add(rows);
            ImageTile {
                rows: begin..next,
                grid: image.grid,
            }
        });
        let tiles: Vec<_> = tiles.collect();
        let number = |(at, input): (usize, &PromptInput)| match *input {
            PromptInput::Token(token) => Ok(token),
            PromptInput::Image { image, row } => {
                let rows: Option<Range<u32>> = tiles.get(image).map(|tile| tile.rows.clone());
                let number = rows.and_then(|mut rows| rows.nth(row));
                number.ok_or(RunError::ImageRow { at })
            }
        };
        let numbers = self.inputs.iter().enumerate().map(number);
        Ok(NumberedPrompt {
            numbers: numbers.collect::<Result<_, _>>()?,
            tiles,
        })
    }
}
