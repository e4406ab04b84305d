//! The rows of a prompt of which some are embeddings of images.

use std::ops::Range;

use crate::tape::{ImageRows, Op, Tape};

/// Rows of a prompt, for a tape with images.
#[derive(Clone, Copy, Debug)]
pub struct ImagePrompt<'a> {
    /// The token of each row. That of an image's row is looked up, and only additional inputs of layers use the result.
    pub tokens: &'a [u32],
    /// The images, by their first row.
    pub images: &'a [ImageSpan<'a>],
    /// The position of each row in time, row and column; empty if models have one position for each row.
    pub positions: &'a [[u32; 3]],
}

/// Consecutive rows of an image.
#[derive(Clone, Copy, Debug)]
pub struct ImageSpan<'a> {
    /// The first row of the prompt.
    pub first: usize,
    /// The number of rows.
    pub rows: usize,
    /// (rows, hidden)
    pub values: &'a [f32],
    /// (rows, hidden) for each layer that adds further embeddings, in order.
    pub deepstack: &'a [&'a [f32]],
    /// Whether these are all rows of the image.
    pub is_whole: bool,
}

/// Why images cannot be part of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("this backend computes no images: use backend = \"cpu\"")]
    Unsupported,
    #[error(
        "an image is cut at row {row} of a prompt, and its rows see each other: run all of them at once, with a larger \
         engine.prefill_chunk"
    )]
    Cut { row: usize },
    #[error(
        "the image at row {row} does not fit {rows} rows of {width} values and {deepstack} further embeddings"
    )]
    Span {
        row: usize,
        rows: usize,
        width: usize,
        deepstack: usize,
    },
    #[error("{given} positions are not one for each of {rows} rows of a model that needs them")]
    Positions { given: usize, rows: usize },
    #[error("row {row} rotates by position {position} of a context of {context}")]
    Position {
        row: usize,
        position: u32,
        context: usize,
    },
    #[error("rows from position {position} on cannot rotate by positions that differ by {offset}")]
    Offset { position: usize, offset: isize },
}

impl ImagePrompt<'_> {
    /// Returns the rows of each image, after the check that they fit a tape with images.
    ///
    /// # Errors
    /// Images that overlap, are cut or have another width than the tape, and positions that are not one for each row.
    pub fn spans(&self, tape: &Tape) -> Result<Vec<Range<usize>>, ImageError> {
        let rows = self.tokens.len();
        let (mut placed, mut added) = (None, Vec::new());
        let (mut joins, mut turns) = (false, false);
        for op in &tape.ops {
            match op {
                Op::Images(ImageRows::Place { x, .. }) => placed = Some(tape.buffer(*x).columns),
                Op::Images(ImageRows::Add { x, .. }) => added.push(tape.buffer(*x).columns),
                Op::Attend { attention, .. } => joins |= attention.joins_images,
                Op::RopeStore { rotation, .. } => turns |= rotation.sections.is_some(),
                _ => {}
            }
        }
        let given = self.positions.len();
        if given != if turns { rows } else { 0 } {
            return Err(ImageError::Positions { given, rows });
        }
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(self.images.len());
        for image in self.images {
            let row = image.first;
            let end = row.saturating_add(image.rows);
            let after = spans.last().map_or(0, |last| last.end);
            let has = |values: &[f32], width: usize| values.len() == image.rows * width;
            let fits = row >= after
                && (row + 1..=rows).contains(&end)
                && placed.is_none_or(|width| has(image.values, width))
                && image.deepstack.len() == added.len()
                && image
                    .deepstack
                    .iter()
                    .zip(&added)
                    .all(|(values, width)| has(values, *width));
            if !fits {
                return Err(ImageError::Span {
                    row,
                    rows,
                    width: placed.unwrap_or(0),
                    deepstack: added.len(),
                });
            }
            if joins && !image.is_whole {
                return Err(ImageError::Cut { row });
            }
            spans.push(row..end);
        }
        Ok(spans)
    }
}
